-- together: runs several reads in one step. A transaction would do the same, but a server before
-- Redis 8 with full memory refuses to queue any command in one, reads too.
--
-- ARGV  for each command the number of its words, then the words
-- Returns one reply for each command
local replies, at = {}, 1
while ARGV[at] do
  local words = tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words)) or false
  at = at + 1 + words
end
return replies

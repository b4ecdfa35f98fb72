-- together: reads in one step. A transaction does the same; but with full memory, Redis before 8
-- refuses all that would wait in one, reads too.
--
-- ARGV  per command: how many words it has, its words
-- Returns one answer per command
local answers, at = {}, 1
while ARGV[at] do
  local words = tonumber(ARGV[at])
  answers[#answers + 1] = redis.call(unpack(ARGV, at + 1, at + words)) or false
  at = at + 1 + words
end
return answers

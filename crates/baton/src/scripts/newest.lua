-- newest: the errors store's newest records, the ends of long ones cut off. Reads only.
--
-- KEYS  1 errors
-- ARGV  1 most records  2 most bytes of each
-- Returns {its whole length in bytes, record, ...}, oldest first
local answer = {}
for _, record in ipairs(redis.call('LRANGE', KEYS[1], -tonumber(ARGV[1]), -1)) do
  answer[#answer + 1] = #record
  answer[#answer + 1] = string.sub(record, 1, tonumber(ARGV[2]))
end
return answer

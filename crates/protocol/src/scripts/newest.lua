-- newest: reads the newest free records of the errors store. It cuts off the ends of long ones.
--
-- KEYS
--   1 errors       hash: id -> record
--   2 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   3 errors_ids   hash: last, free
-- ARGV
--   1 max_records
--   2 max_bytes       of each record in the answer
--   3 readable_bytes  a longer record is not read: a script gets a record whole or not at all,
--                     and Redis does nothing else meanwhile
-- Returns {length, record, ...}, newest first: the length of the whole record in bytes, and its
-- beginning; '' for a record that was not read
local errors, errors_held, errors_ids = unpack(KEYS)
local max_records, max_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local readable_bytes = tonumber(ARGV[3])
-- Ids that one call examines.
local MAX_IDS = 1000

local last = read_count(errors_ids, 'last') or 0
local lowest = math.max(first_free(errors_ids, last), last - MAX_IDS + 1)
local answer = {}
for id = last, lowest, -1 do
  if #answer == 2 * max_records then break end
  local bytes = redis.call('HSTRLEN', errors, id)
  local exists = bytes > 0 or redis.call('HEXISTS', errors, id) == 1
  if exists and redis.call('HEXISTS', errors_held, id) == 0 then
    local record = bytes <= readable_bytes and redis.call('HGET', errors, id) or ''
    local length = parse_stub(record)
    answer[#answer + 1] = length or bytes
    answer[#answer + 1] = length and '' or string.sub(record, 1, max_bytes)
  end
end
return answer

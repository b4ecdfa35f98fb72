-- newest: the errors store's newest records that no drain holds, the ends of long ones cut off.
-- Reads only.
--
-- KEYS  1 errors  2 errors_held  3 errors_ids
-- ARGV  1 most records  2 most bytes of each  3 most bytes of a record that is read at all
-- Returns {its whole length in bytes, record, ...}, newest first; '' for one that is too long
-- to be read here: a script gets a record whole or not at all, and Redis waits meanwhile.
local IDS_LOOKED_AT = 1000
local errors, held_by, ids = unpack(KEYS)
local most, most_bytes, readable = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local last = whole_number(ids, 'last') or 0
local lowest = math.max(first_free(ids, last), last - IDS_LOOKED_AT + 1)
local answer = {}
for id = last, lowest, -1 do
  if #answer == 2 * most then break end
  local bytes = redis.call('HSTRLEN', errors, id)
  local there = bytes > 0 or redis.call('HEXISTS', errors, id) == 1
  if there and redis.call('HEXISTS', held_by, id) == 0 then
    local record = bytes <= readable and redis.call('HGET', errors, id) or ''
    answer[#answer + 1] = bytes
    answer[#answer + 1] = string.sub(record, 1, most_bytes)
  end
end
return answer

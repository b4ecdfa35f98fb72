-- errors_claim: a drain claims records of the errors store: the oldest, or those it names.
--
-- KEYS
--   1 errors       hash: id -> record
--   2 claims       hash: slot -> its claim
--   3 deadlines    zset: slot -> until when its claim holds (ms)
--   4 workers      hash: slot -> what it ended last
--   5 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   6 errors_ids   hash: last, free
-- ARGV
--   1 slot    of the drain
--   2 number  of the claim; grows with each claim of a slot
--   3 run_id  the server process
--   4 ttl_ms  of the claim
--   5 which   'oldest' or 'exactly'
--   if 'oldest':
--   6 max_records
--   7 max_bytes  the last record may exceed it
--   8 max_id     the highest id wanted
--   if 'exactly':
--   6...      ids
-- Returns
--   {'claimed', id...}  the drain holds these records; the same call returns them again. The
--                       records stay in the store, and the drain reads them with HMGET
--   {'again'}           the ids that the call examined have no free record: ask again
--   {'empty'}           there is no free record
--   {'stale'}           this number was committed before, or the slot holds another claim
-- Invariants
--   One drain at most holds a record.
local errors, claims, deadlines, workers, errors_held, errors_ids = unpack(KEYS)
local slot, number_text, run_id, ttl_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local which = ARGV[5]
local number = tonumber(number_text)
-- Ids that one call examines: Redis does nothing else meanwhile.
local MAX_IDS = 1000

local held = redis.call('HGET', claims, slot)
local ended = redis.call('HGET', workers, slot)
must_be(errors, 'hash')
must_be(deadlines, 'zset')
must_be(errors_held, 'hash')
local last = read_count(errors_ids, 'last') or 0
local now = now_ms()
if held then
  local kind, held_number, _, body = parse_claim(held)
  local ids = kind == 'e' and held_number == number and parse_ids(body)
  if not ids then return {'stale'} end
  table.insert(ids, 1, 'claimed')
  return ids
end
if ended and tonumber(string.match(ended, '^(%d+) ') or '0') >= number then return {'stale'} end

-- The length of a free record; nil if there is none with this id.
local function free_bytes(id)
  if redis.call('HEXISTS', errors_held, id) == 1 then return nil end
  local bytes = record_bytes(errors, id)
  if bytes == 0 and redis.call('HEXISTS', errors, id) == 0 then return nil end
  return bytes
end

local taken, free = {}, first_free(errors_ids, last)
local next_free, has_more = free, false
if which == 'oldest' then
  local max_records, max_bytes = math.max(1, tonumber(ARGV[6])), tonumber(ARGV[7])
  local max_id = math.min(last, tonumber(ARGV[8]))
  local stop, bytes = math.min(max_id, free + MAX_IDS - 1), 0
  while next_free <= stop and #taken < max_records and bytes < max_bytes do
    local length = free_bytes(next_free)
    if length then
      taken[#taken + 1] = string.format('%.0f', next_free)
      bytes = bytes + length
    end
    next_free = next_free + 1
  end
  has_more = next_free <= max_id
else
  local named = {}
  for i = 6, #ARGV do
    local id = ARGV[i]
    if not named[id] and free_bytes(id) then taken[#taken + 1] = id end
    named[id] = true
  end
end

begin_writes(claims)
if next_free ~= free then
  redis.call('HSET', errors_ids, 'free', string.format('%.0f', next_free))
end
if #taken == 0 then return {has_more and 'again' or 'empty'} end
redis.call('HSET', claims, slot,
  'e ' .. number_text .. ' ' .. run_id .. ' ' .. table.concat(taken, ' '))
redis.call('ZADD', deadlines, now + ttl_ms, slot)
for first = 1, #taken, IDS_AT_ONCE do
  local marks = {}
  for i = first, math.min(first + IDS_AT_ONCE - 1, #taken) do
    marks[#marks + 1] = taken[i]
    marks[#marks + 1] = slot
  end
  redis.call('HSET', errors_held, unpack(marks))
end
table.insert(taken, 1, 'claimed')
return taken

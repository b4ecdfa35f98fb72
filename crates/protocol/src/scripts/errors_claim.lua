-- errors_claim: a drain takes error records into its hands: the oldest, or those it names.
--
-- KEYS  1 errors  2 claims  3 deadlines  4 workers  5 errors_held  6 errors_ids
-- ARGV  1 slot  2 number of the claim  3 run of the server  4 ttl in ms
--       5 'oldest'   6 most records  7 most bytes, which the last record may exceed
--                    8 highest id wanted
--         'exactly'  6.. ids
-- Returns
--   {'claimed', id...}   asking again with the same number returns the same. The records stay
--                        where they are: the drain reads them with HMGET
--   {'again'}            only ids without a free record so far: ask again
--   {'empty'}            there are none
--   {'stale'}            this number was committed before, or the slot holds another claim
-- Keeps: a record is in the hands of one drain at most.
local IDS_LOOKED_AT = 1000
local errors, claims, deadlines, workers, held_by, ids = unpack(KEYS)
local slot, number, run, ttl = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local held = redis.call('HGET', claims, slot)
local settled = redis.call('HGET', workers, slot)
must_be(errors, 'hash')
must_be(deadlines, 'zset')
must_be(held_by, 'hash')
local last = whole_number(ids, 'last') or 0
local now = now_ms()
if held then
  local kind, held_number, _, body = parse_claim(held)
  local claimed = kind == 'e' and held_number == number and claimed_ids(body)
  if not claimed then return {'stale'} end
  table.insert(claimed, 1, 'claimed')
  return claimed
end
if settled and tonumber(string.match(settled, '^(%d+) ') or '0') >= number then
  return {'stale'}
end

-- How long the record of an id is that no drain holds; nil if there is none.
local function free_bytes(id)
  if redis.call('HEXISTS', held_by, id) == 1 then return nil end
  local bytes = redis.call('HSTRLEN', errors, id)
  if bytes == 0 and redis.call('HEXISTS', errors, id) == 0 then return nil end
  return bytes
end

local taken, free = {}, first_free(ids, last)
local next_free, again = free, false
if ARGV[5] == 'oldest' then
  local most, most_bytes = math.max(1, tonumber(ARGV[6])), tonumber(ARGV[7])
  local highest = math.min(last, tonumber(ARGV[8]))
  local stop, bytes = math.min(highest, free + IDS_LOOKED_AT - 1), 0
  while next_free <= stop and #taken < most and bytes < most_bytes do
    local length = free_bytes(next_free)
    if length then
      taken[#taken + 1] = string.format('%.0f', next_free)
      bytes = bytes + length
    end
    next_free = next_free + 1
  end
  again = next_free <= highest
else
  local named = {}
  for i = 6, #ARGV do
    local id = ARGV[i]
    if not named[id] and free_bytes(id) then taken[#taken + 1] = id end
    named[id] = true
  end
end

-- First write, and a harmless one that needs no memory.
redis.call('HDEL', claims, '')
if next_free ~= free then
  redis.call('HSET', ids, 'free', string.format('%.0f', next_free))
end
if #taken == 0 then return {again and 'again' or 'empty'} end
redis.call('HSET', claims, slot,
  'e ' .. ARGV[2] .. ' ' .. run .. ' ' .. table.concat(taken, ' '))
redis.call('ZADD', deadlines, now + ttl, slot)
for first = 1, #taken, IDS_AT_ONCE do
  local marks = {}
  for i = first, math.min(first + IDS_AT_ONCE - 1, #taken) do
    marks[#marks + 1] = taken[i]
    marks[#marks + 1] = slot
  end
  redis.call('HSET', held_by, unpack(marks))
end
table.insert(taken, 1, 'claimed')
return taken

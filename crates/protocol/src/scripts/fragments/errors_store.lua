-- Fragment: the errors store.
--   errors       hash: id -> record. Ids grow by one for each record and are never given twice
--   errors_held  hash: id -> slot of the drain that has claimed the record
--   errors_ids   hash: `last`, the id given last; `free`, a hint: no record with a lower id is
--                free, that is, claimed by no drain
local IDS_AT_ONCE = 1000

-- Where the search for the oldest free record begins. A hint that is no number, or beyond the ids
-- that were given, is ignored.
local function first_free(errors_ids, last)
  local hint = string.match(redis.call('HGET', errors_ids, 'free') or '', '^%d+$')
  local free = tonumber(hint or '1')
  return free >= 1 and free <= last + 1 and free or 1
end

-- The list of ids in the body of a drain's claim; nil if no script of ours wrote it.
local function parse_ids(body)
  if not string.match(body, '^%d[%d ]*$') then return nil end
  local ids = {}
  for id in string.gmatch(body, '%d+') do ids[#ids + 1] = id end
  return ids
end

-- Deletes the fields ids[from..to] of a hash.
local function delete_ids(hash, ids, from, to)
  for first = from, to, IDS_AT_ONCE do
    redis.call('HDEL', hash, unpack(ids, first, math.min(first + IDS_AT_ONCE - 1, to)))
  end
end

-- Lowers the hint to the lowest of ids[from..], which are free again.
local function lower_free(errors_ids, ids, from)
  local free = redis.call('HGET', errors_ids, 'free')
  if not free then return end
  local lowest = math.huge
  for i = from, #ids do lowest = math.min(lowest, tonumber(ids[i])) end
  if lowest < (tonumber(free) or 0) then
    redis.call('HSET', errors_ids, 'free', string.format('%.0f', lowest))
  end
end


-- Shared: the errors store. Needs checked.
-- `errors` is a hash: id -> record. Ids grow by one per record and are never given twice;
-- `errors_ids` keeps the one given `last`, and `free`: no id below it is both there and in no
-- drain's hands. `errors_held` is a hash: id -> slot of the drain that holds the record.
local IDS_AT_ONCE = 1000

-- Where the search for the oldest record begins. It is a hint: one that is no number, or beyond
-- the ids that were given, is as good as none.
local function first_free(ids, last)
  local free = tonumber(string.match(redis.call('HGET', ids, 'free') or '', '^%d+$') or '1')
  return free >= 1 and free <= last + 1 and free or 1
end

-- The ids of a drain's claim; nil if no script of ours wrote it.
local function claimed_ids(body)
  if not string.match(body, '^%d[%d ]*$') then return nil end
  local claimed = {}
  for id in string.gmatch(body, '%d+') do claimed[#claimed + 1] = id end
  return claimed
end

-- Deletes claimed[from..to] from a hash.
local function delete_ids(hash, claimed, from, to)
  for first = from, to, IDS_AT_ONCE do
    redis.call('HDEL', hash, unpack(claimed, first, math.min(first + IDS_AT_ONCE - 1, to)))
  end
end

-- Makes claimed[from..] free again: a search for the oldest must begin at them.
local function release(ids, claimed, from)
  local free = redis.call('HGET', ids, 'free')
  if not free then return end
  local lowest = math.huge
  for i = from, #claimed do lowest = math.min(lowest, tonumber(claimed[i])) end
  if lowest < (tonumber(free) or 0) then
    redis.call('HSET', ids, 'free', string.format('%.0f', lowest))
  end
end


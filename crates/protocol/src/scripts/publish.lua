-- publish: appends one pack of consecutive messages to the queue, or refuses all of it. In a fleet of
-- several partitions, a pack of one small message goes to an idle node at once, if none waits before it.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish, the last sequence number, the cursor,
--             generator_paused, workers_paused
--   2 queue   list of ranges
--   3 pack    string: where the pack is stored
--   4 staged  string: where the generator put the pack, if it is large
--   5 stats   hash: counters
--   6 idle    zset: idle node -> since when (ms)
--   7 bell    prefix of the bells
--   8 ledger  list of entries
--   9 claims     hash: slot -> its claim
--   10 deadlines zset: slot -> until when its claim holds (ms)
-- ARGV
--   1 node      the generator
--   2 epoch     of its lease
--   3 first     sequence number of the pack's first message
--   4 last      sequence number of its last message
--   5 count     of its messages; 0 if the call stores only the cursor
--   6 cursor    where the source stands after these messages; opaque
--   7 max_open  backpressure: how many messages may have not ended: wait, be claimed or delayed
--   8 bytes     the pack; opaque. '' if it is staged
--   9 digest    of the texts, for the ledger; '' if the fleet keeps none
--   10 presence prefix of the presence channels
--   11 made     how many packs and messages the fleet has made with this pack, in all partitions;
--               opaque; '' in a fleet of one partition
--   12 ttl_ms   of the claim, if the message goes to an idle node at once
-- Returns
--   {'ok', waiting}          the pack is written, or the cursor alone. `waiting`: how many ranges the
--                            queue has with it, for the generator's pace; 0 for a cursor alone, and
--                            for a message that an idle node has
--   {'already', last}        the fleet has these numbers; of a cursor alone, later ones. This call
--                            wrote them earlier, if the caller sent it before and knows `last` as
--                            its own
--   {'gap', last}            the fleet's last number is lower than first - 1, or within the pack
--   {'fenced', node, epoch}  another generator has sealed
--   {'paused'}               an operator has paused the generator. What the fleet has is 'already'
--   {'full', open}           backpressure: `open` messages have not ended
--   {'missing'}              there is no staged pack: the generator sends it again
-- Invariants
--   Sequence numbers have no gap. Only the node and epoch of the fence publish.
--   While the generator is paused, neither `last` nor the cursor changes.
--   `made` and the cursor belong together.
--   The fence's cursor is that of the pack that ends with its last number, or a later one before
--   which the source had no messages.
--   A full server refuses all of a pack: its staging, or here the first write of a small one.
--   A staged pack expires unless this script takes it. No other generator writes its key.
--   A message that goes to an idle node is claimed for the node's slot `node:handed` in this step. No
--   message waits before it, the workers are not paused, the node is present, and the slot is free.
local fence, queue, pack, staged, stats, idle, bell, ledger, claims, deadlines = unpack(KEYS)
-- Most arguments stay texts: they are written as they came, and formatting a number is slow.
local node, epoch, first, last, count, cursor, max_open, bytes, digest, presence, made, ttl_ms
  = unpack(ARGV)

-- The member of `idle` that may have the message at once: the one that is idle longest, if its node
-- holds no other message that it got so. With it, the slot of that node.
local function find_taker()
  local sleeper = redis.call('ZRANGE', idle, 0, 0)[1]
  if not sleeper or not has_channel(sleeper) then return end
  local slot = string.match(sleeper, '^([^@]*)') .. ':handed'
  if redis.call('HEXISTS', claims, slot) == 1 then return end
  must_be(deadlines, 'zset')
  return sleeper, slot
end

-- Sends the message to an idle node, and claims it for the node. The number of the claim is the time in
-- µs: the slot has had no claim of the same number with the same message. Returns whether the node is
-- present.
local function hand_over(sleeper, slot, range, time)
  local number = time[1] .. string.sub('00000' .. time[2], -6)
  redis.call('ZREM', idle, sleeper)
  local heard = redis.call('PUBLISH', presence .. sleeper,
    bell .. '\n' .. number .. '\n' .. range .. '\n' .. bytes)
  if heard == 0 then return false end
  local run_id = string.match(sleeper, '@(.*)$')
  redis.call('HSET', claims, slot, 'm ' .. number .. ' ' .. run_id .. ' ' .. range)
  redis.call('ZADD', deadlines, to_ms(time) + tonumber(ttl_ms), slot)
  return true
end

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last', 'generator_paused',
  'workers_paused')
if fenced[1] ~= node or fenced[2] ~= epoch then
  return {'fenced', fenced[1] or '', fenced[2] or '0'}
end
local fleet_last = checked_count(fence, 'last', fenced[3])
if count == '0' then
  -- The generator has published messages after this cursor, and theirs is newer.
  if tonumber(last) < fleet_last then return {'already', fenced[3]} end
  if tonumber(last) > fleet_last then return {'gap', fenced[3] or '0'} end
  if fenced[4] then return {'paused'} end
  redis.call('HSET', fence, 'cursor', cursor)
  if made ~= '' then redis.call('HSET', fence, 'made', made) end
  return {'ok', 0}
end
if tonumber(last) <= fleet_last then return {'already', fenced[3]} end
if tonumber(first) ~= fleet_last + 1 then return {'gap', fenced[3] or '0'} end
if fenced[4] then return {'paused'} end
local counters = redis.call('HMGET', stats, 'done', 'failed', 'retried', 'void')
local open = fleet_last + checked_count(stats, 'retried', counters[3])
  - checked_count(stats, 'done', counters[1]) - checked_count(stats, 'failed', counters[2])
  - checked_count(stats, 'void', counters[4])
if open + tonumber(count) > tonumber(max_open) then
  return {'full', string.format('%.0f', open)}
end
local waiting = redis.call('LLEN', queue)
-- Few calls: after the copy of a large pack, each of them finds the server's caches cold.
local idle_nodes = redis.call('ZCARD', idle)
local taker, taker_slot
if made ~= '' and idle_nodes > 0 and waiting == 0 and count == '1' and bytes ~= ''
  and not fenced[5] then
  taker, taker_slot = find_taker()
end
local time
if digest ~= '' then must_be(ledger, 'list') end
if digest ~= '' or taker then time = redis.call('TIME') end

if bytes == '' then
  -- It must expire until here, else the generator did not write it.
  if redis.call('PERSIST', staged) == 0 then return {'missing'} end
  -- The bytes stay where they are in memory: neither Lua nor the server copies them.
  redis.call('RENAME', staged, pack)
else
  redis.call('SET', pack, bytes)
end
if made == '' then
  redis.call('HSET', fence, 'last', last, 'cursor', cursor)
else
  redis.call('HSET', fence, 'last', last, 'cursor', cursor, 'made', made)
end
local range = first .. ' ' .. count .. ' ' .. first .. ' ' .. last .. ' 0'
if not taker or not hand_over(taker, taker_slot, range, time) then
  waiting = redis.call('RPUSH', queue, range)
  if idle_nodes > 0 then ring(idle, bell, presence) end
end
if digest ~= '' then
  append_entry(ledger, 'p ' .. epoch .. ' ' .. first .. ' ' .. last .. ' ' .. digest, time)
end
return {'ok', waiting}

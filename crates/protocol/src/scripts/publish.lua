-- publish: appends one pack of consecutive messages to the queue, or refuses all of it.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish, the last sequence number, the cursor,
--             generator_paused
--   2 queue   list of ranges
--   3 pack    string: where the pack is stored
--   4 staged  string: where the generator put the pack, if it is large
--   5 stats   hash: counters
--   6 idle    zset: idle node -> since when (ms)
--   7 bell    prefix of the bells
--   8 ledger  list of entries
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
-- Returns
--   {'ok', waiting}          the pack is written, or the cursor alone. `waiting`: how many ranges the
--                            queue has with it, for the generator's pace; 0 for a cursor alone
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
--   The fence's cursor is that of the pack that ends with its last number, or a later one before
--   which the source had no messages.
--   A full server refuses all of a pack: its staging, or here the first write of a small one.
--   A staged pack expires unless this script takes it. No other generator writes its key.
local fence, queue, pack, staged, stats, idle, bell, ledger = unpack(KEYS)
-- Most arguments stay texts: they are written as they came, and formatting a number is slow.
local node, epoch, first, last, count, cursor, max_open, bytes, digest, presence = unpack(ARGV)

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last', 'generator_paused')
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
must_be(queue, 'list')
-- Few calls: after the copy of a large pack, each of them finds the server's caches cold.
local idle_nodes = redis.call('ZCARD', idle)
local time
if digest ~= '' then
  must_be(ledger, 'list')
  time = redis.call('TIME')
end

if bytes == '' then
  -- It must expire until here, else the generator did not write it.
  if redis.call('PERSIST', staged) == 0 then return {'missing'} end
  -- The bytes stay where they are in memory: neither Lua nor the server copies them.
  redis.call('RENAME', staged, pack)
else
  redis.call('SET', pack, bytes)
end
local waiting = redis.call('RPUSH', queue, first .. ' ' .. count .. ' ' .. first .. ' ' .. last .. ' 0')
redis.call('HSET', fence, 'last', last, 'cursor', cursor)
if idle_nodes > 0 then ring(idle, bell, presence) end
if digest ~= '' then
  append_entry(ledger, 'p ' .. epoch .. ' ' .. first .. ' ' .. last .. ' ' .. digest, time)
end
return {'ok', waiting}

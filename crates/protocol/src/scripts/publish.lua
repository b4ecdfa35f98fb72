-- publish: appends one pack of consecutive messages to the queue, or refuses all of it.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish, the last sequence number, the cursor
--   2 queue   list of ranges
--   3 packs   hash: first sequence number of a pack -> the pack
--   4 stats   hash: counters
--   5 idle    zset: idle node -> since when (ms)
--   6 bell    prefix of the bells
--   7 ledger  list of entries
-- ARGV
--   1 node      the generator
--   2 epoch     of its lease
--   3 first     sequence number of the pack's first message
--   4 last      sequence number of its last message
--   5 count     of its messages
--   6 cursor    where the schedule stands afterwards; opaque
--   7 max_open  backpressure: how many messages may wait or be claimed
--   8 pack      the messages; opaque
--   9 digest    of the texts, for the ledger; '' if the fleet keeps none
--   10 presence  prefix of the presence channels
-- Returns
--   {'ok'}                   the pack is written
--   {'already', last}        the fleet has these numbers. This call wrote them earlier, if the
--                            caller sent it before and knows `last` as its own
--   {'gap', last}            the fleet's last number is not first - 1
--   {'fenced', node, epoch}  another generator has sealed
--   {'full', open}           backpressure: `open` messages have not ended
-- Invariants
--   Sequence numbers have no gap. Only the node and epoch of the fence publish.
--   The first write needs memory, so a full server refuses all of a pack.
local fence, queue, packs, stats, idle, bell, ledger = unpack(KEYS)
-- Most arguments stay texts: they are written as they came, and formatting a number is slow.
local node, epoch, first, last, count, cursor, max_open, pack, digest, presence = unpack(ARGV)

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last')
if fenced[1] ~= node or fenced[2] ~= epoch then
  return {'fenced', fenced[1] or '', fenced[2] or '0'}
end
local fleet_last = checked_count(fence, 'last', fenced[3])
if tonumber(last) <= fleet_last then return {'already', fenced[3]} end
if tonumber(first) ~= fleet_last + 1 then return {'gap', fenced[3] or '0'} end
local counters = redis.call('HMGET', stats, 'done', 'failed', 'retried')
local open = fleet_last + checked_count(stats, 'retried', counters[3])
  - checked_count(stats, 'done', counters[1]) - checked_count(stats, 'failed', counters[2])
if open + tonumber(count) > tonumber(max_open) then
  return {'full', string.format('%.0f', open)}
end
must_be(queue, 'list')
must_be(idle, 'zset')
local time
if digest ~= '' then
  must_be(ledger, 'list')
  time = redis.call('TIME')
end

redis.call('HSET', packs, first, pack)
redis.call('RPUSH', queue, first .. ' ' .. count .. ' ' .. first .. ' ' .. last .. ' 0')
redis.call('HSET', fence, 'last', last, 'cursor', cursor)
ring(idle, bell, presence)
if digest ~= '' then
  append_entry(ledger, 'p ' .. epoch .. ' ' .. first .. ' ' .. last .. ' ' .. digest, time)
end
return {'ok'}

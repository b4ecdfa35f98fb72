-- seal: a new generator raises the fence. From here on no publish of an older one is accepted.
--
-- KEYS
--   1 fence  hash: the node and epoch that may publish, the last sequence number, the cursor, born,
--            known
--   2 queue  list of ranges
--   3 idle   zset: idle node -> since when (ms)
-- ARGV
--   1 node   the new generator
--   2 epoch  of its lease
--   3 born   a random word: the name of this data if it has none yet
--   4 presence  prefix of the presence channels
--   5 sleeper   the node as it is named in `idle`
-- Returns
--   {'sealed', last, cursor, known, made}
--                            the fleet's last sequence number, and where its source stands: the
--                            cursor of the pack that ends with that number; '' if it has none. The
--                            highest number that a node knows to be given; it is higher than `last`
--                            if the server forgot messages. What the fleet had made with that pack;
--                            '' in a fleet of one partition
--   {'fenced', node, epoch}   a newer generator, or another of the same epoch, has sealed
-- Invariants
--   The fence only rises. Of two nodes with one epoch, one passes. `born` is written once in the
--   life of this data. A generator is not idle: no message rings for it.
local fence, queue, idle = unpack(KEYS)
local node, epoch, born, presence, sleeper = unpack(ARGV)

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last', 'cursor', 'born', 'known', 'made')
local fenced_node, fenced_epoch = fenced[1] or '', checked_count(fence, 'epoch', fenced[2])
must_be_count(fence, 'last', fenced[3])
-- A hint: a value that is no number says nothing, and ends no generator.
local known = parse_count(fenced[6] or '0') and fenced[6] or '0'
local waiting = redis.call('LLEN', queue)
must_be(idle, 'zset')
if fenced_epoch > tonumber(epoch)
  or (fenced_epoch == tonumber(epoch) and fenced_node ~= node) then
  return {'fenced', fenced_node, string.format('%.0f', fenced_epoch)}
end

-- HDEL needs no memory: the old generator loses the fence even if the server is full.
redis.call('HDEL', fence, 'node', 'epoch')
redis.call('HSET', fence, 'node', node, 'epoch', epoch, 'born', fenced[5] or born)
redis.call('ZREM', idle, sleeper)
-- The node slept until now and may have been rung.
if waiting > 0 then ring(idle, queue, presence) end
return {'sealed', fenced[3] or '0', fenced[4] or '', known, fenced[7] or ''}

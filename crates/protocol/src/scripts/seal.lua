-- seal: a new generator raises the fence. From here on nothing of an older one is accepted.
--
-- KEYS  1 fence  2 queue  3 bell
-- ARGV  1 node  2 epoch  3 a random word: what this data is called if it has no name yet
-- Returns
--   {'sealed', last sequence number, cursor (opaque)}
--   {'fenced', node, epoch}     a newer generator, or another one of the same epoch, was here
-- Keeps: the fence only rises; two nodes of one epoch never both pass. `born` is written once
-- in the life of this data.
local node, epoch = ARGV[1], tonumber(ARGV[2])
local fence = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'last', 'cursor', 'born')
local fenced_node, fenced_epoch = fence[1] or '', counted(KEYS[1], 'epoch', fence[2])
counted(KEYS[1], 'last', fence[3])
local waiting = redis.call('LLEN', KEYS[2])
redis.call('LLEN', KEYS[3])
if fenced_epoch > epoch or (fenced_epoch == epoch and fenced_node ~= node) then
  return {'fenced', fenced_node, string.format('%.0f', fenced_epoch)}
end
-- Field by field through HDEL first: a full server must not keep the old generator.
redis.call('HDEL', KEYS[1], 'node', 'epoch')
redis.call('HSET', KEYS[1], 'node', node, 'epoch', ARGV[2], 'born', fence[5] or ARGV[3])
-- The node blocked on the bell until now; a token it swallowed is replaced here.
if waiting > 0 then ring(KEYS[3]) end
return {'sealed', fence[3] or '0', fence[4] or '0'}

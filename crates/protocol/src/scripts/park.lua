-- park: keeps packs that are for another partition, or removes them. The generator could not reach their
-- own partition, and goes on with the next ones elsewhere; a successor must find them.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish
--   2 parked  hash: partition:first -> a pack with all that its publish needs; opaque
-- ARGV
--   1 node    the generator
--   2 epoch   of its lease
--   3… field, bytes  of each pack; no bytes remove it
-- Returns
--   {'ok'}                   the packs are kept, or removed
--   {'fenced', node, epoch}  another generator has sealed
-- Invariants
--   Only the node and epoch of the fence park and remove: so a generator that has sealed all partitions
--   finds all packs that an older one parked.
local fence, parked = unpack(KEYS)
local node, epoch = ARGV[1], ARGV[2]

local fenced = redis.call('HMGET', fence, 'node', 'epoch')
if fenced[1] ~= node or fenced[2] ~= epoch then
  return {'fenced', fenced[1] or '', fenced[2] or '0'}
end
must_be(parked, 'hash')

for i = 3, #ARGV, 2 do
  local field, bytes = ARGV[i], ARGV[i + 1]
  if bytes == '' then
    redis.call('HDEL', parked, field)
  else
    redis.call('HSET', parked, field, bytes)
  end
end
return {'ok'}

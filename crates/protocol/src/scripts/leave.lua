-- leave: a node that stops is forgotten. If it has the lease, it resigns.
--
-- KEYS
--   1 generator  hash, the lease: node, epoch, until (ms), run, since (ms)
--   2 nodes      hash: node -> run_id, a space, what the node says about itself
--   3 joined     zset: node -> when it joined (ms); the line of standbys
--   4 seen       zset: node -> its last beat (ms)
-- ARGV
--   1 node         the caller
--   2 call_prefix  of the call channels
-- Returns
--   {'resigned'}  the node had the lease and gave it up
--   {'left'}      it did not have it
-- Invariants
--   The epoch stays, so the next holder's is higher. `since` becomes the time of resignation.
--   The next nodes in line are called: they beat at once.
local generator, nodes, joined, seen = unpack(KEYS)
local node, call_prefix = unpack(ARGV)
-- The generator and the two first standbys, at most.
local CALLED_NODES = 3

must_be(joined, 'zset')
must_be(seen, 'zset')
must_be(nodes, 'hash')
local resigns = redis.call('HGET', generator, 'node') == node

redis.call('HDEL', nodes, node)
redis.call('ZREM', joined, node)
redis.call('ZREM', seen, node)
for _, name in ipairs(redis.call('ZRANGE', joined, 0, CALLED_NODES - 1)) do
  redis.call('PUBLISH', call_prefix .. name, '')
end
if not resigns then return {'left'} end
redis.call('HDEL', generator, 'node', 'until', 'run', 'since')
redis.call('HSET', generator, 'since', now_ms())
return {'resigned'}

-- leave: a node that stops in good order is forgotten; if it holds the lease, it resigns.
--
-- KEYS  1 generator  2 nodes  3 joined  4 seen
-- ARGV  1 node
-- Returns {'resigned'} or {'left'}
-- Keeps: the epoch stays, so that the next holder's is higher.
local node = ARGV[1]
local resigns = redis.call('HGET', KEYS[1], 'node') == node
redis.call('HDEL', KEYS[2], node)
redis.call('ZREM', KEYS[3], node)
redis.call('ZREM', KEYS[4], node)
if not resigns then return {'left'} end
redis.call('HDEL', KEYS[1], 'node', 'until', 'run', 'since')
return {'resigned'}

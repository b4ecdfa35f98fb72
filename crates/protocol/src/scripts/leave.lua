-- leave: a node that stops in good order is forgotten; if it holds the lease, it resigns.
--
-- KEYS  1 generator  2 nodes  3 joined  4 seen
-- ARGV  1 node  2 prefix of call channels
-- Returns {'resigned'} or {'left'}
-- Keeps: the epoch stays, so that the next holder's is higher; `since` becomes when the lease
-- was given up. The next in line are called to beat at once.
local node = ARGV[1]
redis.call('ZCARD', KEYS[3])
redis.call('ZCARD', KEYS[4])
redis.call('HLEN', KEYS[2])
local resigns = redis.call('HGET', KEYS[1], 'node') == node
redis.call('HDEL', KEYS[2], node)
redis.call('ZREM', KEYS[3], node)
redis.call('ZREM', KEYS[4], node)
for _, name in ipairs(redis.call('ZRANGE', KEYS[3], 0, 2)) do
  redis.call('PUBLISH', ARGV[2] .. name, '')
end
if not resigns then return {'left'} end
redis.call('HDEL', KEYS[1], 'node', 'until', 'run', 'since')
redis.call('HSET', KEYS[1], 'since', now_ms())
return {'resigned'}

-- free: takes the lease from a holder that is gone from presence, whatever its time says.
--
-- KEYS  1 generator
-- ARGV  1 prefix of presence channels
-- Returns {'freed', holder} or {'kept'}
-- Keeps: the epoch stays, so that the next holder's is higher. A holder that lives after all is
-- refused by the fence, or takes the lease again with its next beat.
local holder = redis.call('HGET', KEYS[1], 'node')
if not holder or not absent(ARGV[1], '', {{name = holder}})[holder] then return {'kept'} end
redis.call('HDEL', KEYS[1], 'node', 'until', 'run', 'since')
redis.call('HSET', KEYS[1], 'since', now_ms())
return {'freed', holder}

-- free: takes the lease from a holder that is absent, even before the lease ends.
--
-- KEYS
--   1 generator  hash, the lease: node, epoch, until (ms), run, since (ms)
-- ARGV
--   1 prefix  of the presence channels
-- Returns
--   {'freed', holder}  the lease is free
--   {'kept'}           its holder is present, or it has none
-- Invariants
--   The epoch stays, so the next holder's is higher. A holder that lives after all is refused by
--   the fence, or takes the lease again with its next beat.
local generator, prefix = KEYS[1], ARGV[1]

local holder = redis.call('HGET', generator, 'node')
if not holder or not absent(prefix, '', {{name = holder}})[holder] then return {'kept'} end

redis.call('HDEL', generator, 'node', 'until', 'run', 'since')
redis.call('HSET', generator, 'since', now_ms())
return {'freed', holder}

-- ring: wakes an idle node if messages wait. A node that was rung and is busy calls it.
--
-- KEYS
--   1 queue  list of ranges
--   2 idle   zset: idle node -> since when (ms)
-- ARGV
--   1 presence  prefix of the presence channels
-- Returns
--   {'ok'}
local queue, idle = unpack(KEYS)
local presence = ARGV[1]

if redis.call('LLEN', queue) > 0 then ring(idle, queue, presence) end
return {'ok'}

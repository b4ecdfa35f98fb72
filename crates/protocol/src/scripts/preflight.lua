-- preflight: tries every command that the scripts use, on a key of its own, before a node joins.
-- A script that loses a permission halfway is not rolled back, so this must come first.
--
-- KEYS  1 scratch
-- Returns the commands that this user may not run.
local scratch, missing = KEYS[1], {}
local function try(name, ...)
  local reply = redis.pcall(name, ...)
  if type(reply) == 'table' and reply.err then
    missing[#missing + 1] = string.lower(name) .. ': ' .. reply.err
  end
end
try('DEL', scratch)
try('HSET', scratch, 'f', '1')
try('HGET', scratch, 'f')
try('HMGET', scratch, 'f')
try('HGETALL', scratch)
try('HEXISTS', scratch, 'f')
try('HLEN', scratch)
try('HSTRLEN', scratch, 'f')
try('HINCRBY', scratch, 'f', 1)
try('HRANDFIELD', scratch, 1, 'WITHVALUES')
try('HDEL', scratch, 'f')
try('DEL', scratch)
try('RPUSH', scratch, '1')
try('LPUSH', scratch, '1')
try('LLEN', scratch)
try('LRANGE', scratch, 0, -1)
try('LINDEX', scratch, 0)
try('LSET', scratch, 0, '1')
try('LPOP', scratch)
try('LTRIM', scratch, 0, 0)
try('DEL', scratch)
try('ZADD', scratch, 1, 'm')
try('ZCARD', scratch)
try('ZSCORE', scratch, 'm')
try('ZMSCORE', scratch, 'm')
try('ZRANGE', scratch, 0, 0)
try('ZRANGEBYSCORE', scratch, 0, 0)
try('ZREM', scratch, 'm')
try('DEL', scratch)
try('TYPE', scratch)
try('TIME')
try('PUBSUB', 'NUMSUB', scratch)
try('PUBLISH', KEYS[1], '')
return missing

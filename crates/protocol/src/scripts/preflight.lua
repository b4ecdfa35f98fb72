-- preflight: tries every command that the scripts use, on a key of its own, before a node joins.
-- Redis does not undo what a script wrote before it met a missing permission.
--
-- KEYS
--   1 scratch  any key that the fleet does not use
-- Returns for each command that this user may not run "command: error"
local scratch, missing = KEYS[1], {}

-- Runs a command and notes the error, if there is one.
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
try('SET', scratch, '1', 'EX', 60)
try('STRLEN', scratch)
try('GET', scratch)
try('PERSIST', scratch)
try('RENAME', scratch, scratch)
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
try('ZRANDMEMBER', scratch, 1)
try('ZREM', scratch, 'm')
try('ZPOPMIN', scratch)
try('EXPIRE', scratch, 1)
try('DEL', scratch)
try('TYPE', scratch)
try('TIME')
try('PUBSUB', 'NUMSUB', scratch)
try('PUBLISH', scratch, '')
return missing

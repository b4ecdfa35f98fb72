-- preflight: tries commands that the scripts use, on a key of its own, before a client changes
-- anything. Redis does not undo what a script wrote before it met a missing permission.
--
-- KEYS
--   1 scratch  any key that the fleet does not use
-- ARGV
--   1 channel  any channel on which a node may call another
--   2…         the commands to try, as rights.rs names them
-- Returns for each of them that this user may not run "command: error"
-- Leaves no key behind, unless the user may write and neither delete nor expire.
local scratch, channel = KEYS[1], ARGV[1]
local wanted, tried, missing = {}, {}, {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end

-- Runs a command if it is wanted, and notes the error, if there is one. A key that is not there is
-- none: the command that should have written it is noted.
local function try(name, ...)
  local right = string.lower(name)
  if name == 'PUBSUB' then right = right .. '|' .. string.lower((...)) end
  if not wanted[right] then return end
  local reply = redis.pcall(name, ...)
  local why = type(reply) == 'table' and reply.err
  if why and not tried[right] and not string.find(why, 'no such key', 1, true) then
    missing[#missing + 1] = right .. ': ' .. why
  end
  tried[right] = true
end

-- Empties the key, so that it can hold another type.
local function clear()
  try('EXPIRE', scratch, 0)
  try('DEL', scratch)
end

clear()
try('HSET', scratch, 'f', '1')
try('HSETNX', scratch, 'f', '1')
try('HGET', scratch, 'f')
try('HMGET', scratch, 'f')
try('HGETALL', scratch)
try('HEXISTS', scratch, 'f')
try('HLEN', scratch)
try('HSTRLEN', scratch, 'f')
try('HINCRBY', scratch, 'f', 1)
try('HRANDFIELD', scratch, 1, 'WITHVALUES')
try('HDEL', scratch, 'f')
clear()
try('SET', scratch, '1', 'EX', 60)
try('STRLEN', scratch)
try('GET', scratch)
try('PTTL', scratch)
try('PERSIST', scratch)
try('RENAME', scratch, scratch)
clear()
try('RPUSH', scratch, '1')
try('LPUSH', scratch, '1')
try('LLEN', scratch)
try('LRANGE', scratch, 0, -1)
try('LINDEX', scratch, 0)
try('LSET', scratch, 0, '1')
try('LPOP', scratch)
try('LTRIM', scratch, 0, 0)
clear()
try('ZADD', scratch, 1, 'm')
try('ZCARD', scratch)
try('ZSCORE', scratch, 'm')
try('ZMSCORE', scratch, 'm')
try('ZRANGE', scratch, 0, 0)
try('ZRANGEBYSCORE', scratch, 0, 0)
try('ZRANDMEMBER', scratch, 1)
try('ZREM', scratch, 'm')
try('ZPOPMIN', scratch)
clear()
try('TYPE', scratch)
try('TIME')
try('PUBSUB', 'NUMSUB', channel)
try('PUBSUB', 'CHANNELS', channel)
try('PUBLISH', channel, '')
for i = 2, #ARGV do
  if not tried[ARGV[i]] then missing[#missing + 1] = ARGV[i] .. ': the preflight does not know it' end
end
return missing

-- Fragment: types of keys. Redis does not undo what a script wrote before it failed. So a script
-- checks the types of the keys that it writes before its first write.

-- Fails with WRONGTYPE if the key exists and is not a 'hash', a 'list' or a 'zset'. The commands
-- that read a length make this check, and cost less than TYPE.
local function must_be(key, kind)
  if kind == 'hash' then
    redis.call('HLEN', key)
  elseif kind == 'list' then
    redis.call('LLEN', key)
  else
    redis.call('ZCARD', key)
  end
end


-- Fragment: the bell. Idle workers block on this list, which holds at most one token.

-- Puts the token into the bell if it has none: one idle worker wakes up.
local function ring(bell)
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end


-- Shared: the bell holds at most one token; idle workers block on it.
local function ring(bell)
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end


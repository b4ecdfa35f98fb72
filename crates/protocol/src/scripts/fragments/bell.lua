-- Fragment: bells. `idle` has the nodes with a lane that sleeps. Each node has a bell of its own.
--
-- In a fleet of one partition the bell is a list on which one of the node's idle lanes blocks. Each
-- node has one, because a server looks at all clients that block on a key when it wakes one of them.
--
-- In a fleet of several partitions a lane cannot block on the bells of all of them. There, `idle` has
-- `node@run_id`, which ends the name of a channel: the node has subscribed to it at this process of
-- the server. The script publishes there which partition rings: the prefix of the partition's bells.

-- Whether this member of `idle` has a channel.
local function has_channel(sleeper)
  return string.find(sleeper, '@', 1, true)
end

-- Rings the bell of a node, if it is a list: puts a token into it, if it has none. A lane that lives
-- takes the token within seconds: one in the bell of a dead node expires.
--   bell  prefix of the bells
local function ring_list(bell, node)
  local TOKEN_TTL_S = 10
  -- A bell of another type is the work of another client, and harms only its own node.
  if redis.pcall('LLEN', bell .. node) == 0 then
    redis.call('RPUSH', bell .. node, '1')
    redis.call('EXPIRE', bell .. node, TOKEN_TTL_S)
  end
end

-- Rings for one member of `idle`. Returns whether its node is present.
--   bell      prefix of the bells
--   presence  prefix of the presence channels
local function ring_node(bell, presence, sleeper)
  if has_channel(sleeper) then return redis.call('PUBLISH', presence .. sleeper, bell) > 0 end
  ring_list(bell, sleeper)
  return redis.call('PUBSUB', 'NUMSUB', presence .. sleeper)[2] > 0
end

-- Wakes the node that is idle longest. An absent node gets a token, too, because it may have lost
-- only its presence connection; then the next node is woken. Returns whether a present node was
-- woken.
--   idle      zset: node -> since when (ms)
--   bell      prefix of the bells
--   presence  prefix of the presence channels
local function ring(idle, bell, presence)
  local MAX_NODES = 16
  for _ = 1, MAX_NODES do
    local sleeper = redis.call('ZPOPMIN', idle)[1]
    if not sleeper then return false end
    if ring_node(bell, presence, sleeper) then return true end
  end
  return false
end


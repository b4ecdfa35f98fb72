-- Fragment: bells. `idle` has the nodes with a lane that sleeps. Each node has a bell of its own, a
-- list on which one of its idle lanes blocks: a server looks at all clients that block on a key
-- when it wakes one of them.

-- Puts a token into the bell of a node, if it has none. A lane that lives takes it within seconds:
-- a token in the bell of a dead node expires.
--   bell  prefix of the bells
local function ring_node(bell, node)
  local TOKEN_TTL_S = 10
  -- A bell of another type is the work of another client, and harms only its own node.
  if redis.pcall('LLEN', bell .. node) == 0 then
    redis.call('RPUSH', bell .. node, '1')
    redis.call('EXPIRE', bell .. node, TOKEN_TTL_S)
  end
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
    local node = redis.call('ZPOPMIN', idle)[1]
    if not node then return false end
    ring_node(bell, node)
    if redis.call('PUBSUB', 'NUMSUB', presence .. node)[2] > 0 then return true end
  end
  return false
end


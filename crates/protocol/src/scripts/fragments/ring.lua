-- Fragment: rings. `idle` has the nodes with a lane that sleeps, as `node@run_id`: that ends the name of a
-- channel to which the node has subscribed at this process of the server. A script rings by
-- publishing there which partition has messages: the key of its queue.
--
-- The score in `idle` is since when the node is idle (ms), and behind the point how many messages its
-- lane wants, in parts of 1,024: a double has room for both.

-- The score of a node whose lane wants so many messages, at most 1,000.
local function idle_score(now, want)
  return now + want / 1024
end

-- How many messages the lane of a node with this score wants; 1 if no script of ours wrote the score.
local function wanted_by(score)
  local want = math.floor(tonumber(score) % 1 * 1024)
  return want >= 1 and want or 1
end

-- Whether a node has subscribed to this ring channel. The number of those who get a publish does not say
-- it: a client that watches all channels is among them.
local function hears(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0
end

-- Rings for one member of `idle`. Returns whether its node is present. A member without a run id is not
-- the work of a script of ours: the node of that name would not understand it.
--   queue     the key of the queue
--   presence  prefix of the presence channels
local function ring_node(queue, presence, sleeper)
  local channel = presence .. sleeper
  if not string.find(sleeper, '@', 1, true) or not hears(channel) then return false end
  redis.call('PUBLISH', channel, queue)
  return true
end

-- Wakes the node that is idle longest; while that is absent, the next one. Returns whether a node was
-- woken.
local function ring(idle, queue, presence)
  local MAX_NODES = 16
  for _ = 1, MAX_NODES do
    local sleeper = redis.call('ZPOPMIN', idle)[1]
    if not sleeper then return false end
    if ring_node(queue, presence, sleeper) then return true end
  end
  return false
end

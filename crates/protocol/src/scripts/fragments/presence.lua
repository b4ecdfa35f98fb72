-- Fragment: presence. A node subscribes to a channel of its own and stays subscribed while its
-- process lives: the kernel closes the socket of a killed process.

-- Which of these nodes have no subscriber.
--   prefix  of the presence channels
--   run_id  only nodes that subscribed to this server process are considered, because every node
--           is absent for a moment after a restart; '' considers all
--   nodes   list of {name = , run_id = }; run_id may be left out where the parameter is ''
-- Returns a set: name -> true.
local function absent(prefix, run_id, nodes)
  -- Lua passes a few thousand arguments to a function at most.
  local MAX_CHANNELS = 1000
  local channels, listed, gone = {}, {}, {}
  for _, node in ipairs(nodes) do
    if not listed[node.name] and (run_id == '' or node.run_id == run_id) then
      listed[node.name] = true
      channels[#channels + 1] = prefix .. node.name
    end
  end
  for first = 1, #channels, MAX_CHANNELS do
    local last = math.min(first + MAX_CHANNELS - 1, #channels)
    local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels, first, last))
    for i = 1, #counts, 2 do
      if counts[i + 1] == 0 then gone[string.sub(counts[i], #prefix + 1)] = true end
    end
  end
  return gone
end


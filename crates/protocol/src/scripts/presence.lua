-- Shared: presence. A node is subscribed to its own channel for as long as its process
-- lives; the kernel closes the socket of a killed one. An absent subscriber proves death
-- only if the node subscribed at this very run of the server: after a restart everybody
-- is absent for a moment. An empty `run` drops that condition.
local function absent(prefix, run, nodes)
  local channels, asked, result = {}, {}, {}
  local function ask()
    if #channels == 0 then return end
    local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
    for i = 1, #counts, 2 do
      if tonumber(counts[i + 1]) == 0 then result[string.sub(counts[i], #prefix + 1)] = true end
    end
    channels = {}
  end
  for _, node in ipairs(nodes) do
    if not asked[node.name] and (run == '' or node.run == run) then
      asked[node.name] = true
      channels[#channels + 1] = prefix .. node.name
      -- Lua can pass a few thousand arguments, not any number.
      if #channels == 1000 then ask() end
    end
  end
  ask()
  return result
end


-- Shared: suspects. Needs presence.
--
-- A worker whose connection was cut looks like one that died, until it comes back under its own
-- name. So what comes back from a worker carries the worker's name, and only the names that are
-- still gone from presence count as deaths.

-- Since when, at which run of the server, and the names of those that are gone.
local function suspects(tail, prefix)
  local since, run, list = string.match(tail, '^ (%d+) (%x*) (.*)$')
  if not since then return 0, '', {} end
  local nodes, gone = {}, {}
  for name in string.gmatch(list, '[^,]+') do nodes[#nodes + 1] = {name = name} end
  local absent_now = absent(prefix, '', nodes)
  for _, node in ipairs(nodes) do
    if absent_now[node.name] then gone[#gone + 1] = node.name end
  end
  return tonumber(since), run, gone
end

-- What stands behind a range with these suspects.
local function format_suspects(since, run, names)
  if #names == 0 then return '' end
  return ' ' .. string.format('%.0f', since) .. ' ' .. run .. ' ' .. table.concat(names, ',')
end


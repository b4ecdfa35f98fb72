-- Fragment: suspects. Needs presence.
-- A worker whose connection was cut looks like a dead one until it comes back under its own name.
-- So a range that comes back carries the names of the workers that may have died with it, and a
-- name counts as a death only while that worker is absent. They are the tail of the range,
-- " since run_id name,name":
--   since   when the last of them became a suspect, in ms
--   run_id  the server process at that time

-- Reads a tail. Returns since, run_id and the list of the suspects that are absent now; 0, '' and
-- an empty list if there is no tail.
local function absent_suspects(tail, prefix)
  local since, run_id, names = string.match(tail, '^ (%d+) (%x*) (.*)$')
  if not since then return 0, '', {} end
  local suspects, dead = {}, {}
  for name in string.gmatch(names, '[^,]+') do suspects[#suspects + 1] = {name = name} end
  local gone = absent(prefix, '', suspects)
  for _, suspect in ipairs(suspects) do
    if gone[suspect.name] then dead[#dead + 1] = suspect.name end
  end
  return tonumber(since), run_id, dead
end

-- The tail of a range with these suspects; '' if there are none.
local function format_suspects(since, run_id, names)
  if #names == 0 then return '' end
  return ' ' .. string.format('%.0f', since) .. ' ' .. run_id .. ' ' .. table.concat(names, ',')
end


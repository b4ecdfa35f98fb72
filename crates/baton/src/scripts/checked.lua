-- Shared: checks before the first write. An error names the key, so that a person can mend it.

-- Another type would make a later command of the script fail halfway.
local function must_be(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. key .. ' holds a ' .. found .. ', not a ' .. kind, 0)
  end
end

-- A field that a script adds to, as a number; nil if there is none. Fifteen digits stay exact.
local function whole_number(key, field)
  local text = redis.call('HGET', key, field)
  if not text then return nil end
  if #text > 15 or not (text == '0' or string.match(text, '^[1-9]%d*$')) then
    error(key .. ' ' .. field .. ' is no whole number: ' .. string.sub(text, 1, 20), 0)
  end
  return tonumber(text)
end


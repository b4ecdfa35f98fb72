-- Shared: checks before the first write. Redis does not undo what a script wrote before it
-- failed: so another type, or a value that cannot be added to, is found before, and the error
-- names its place.

-- Another type would make a later command of the script fail halfway.
local function must_be(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. key .. ' holds a ' .. found .. ', not a ' .. kind, 0)
  end
end

-- The largest whole number that Lua counts exactly.
local LARGEST = 9007199254740991

-- A whole number as HINCRBY writes it, or nil.
local function whole(text)
  if text ~= '0' and (#text > 16 or not string.match(text, '^[1-9]%d*$')) then return nil end
  local number = tonumber(text)
  return number <= LARGEST and number or nil
end

-- The value of a field that counts something; a field that is missing counts 0.
local function counted(key, field, value)
  if not value then return 0 end
  local number = whole(value)
  if number then return number end
  local shown = string.gsub(string.sub(value, 1, 40), '[^%w%p ]', '?')
  error('BADVALUE ' .. key .. ' ' .. field .. ' holds "' .. shown
    .. '", which is not a whole number below 2^53', 0)
end

-- A field as a number; nil if there is none.
local function whole_number(key, field)
  local value = redis.call('HGET', key, field)
  return value and counted(key, field, value)
end


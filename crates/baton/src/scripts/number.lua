-- Shared: numbers that a script of ours wrote. A value that is none would make a command fail
-- halfway, and Redis does not undo what was written before: so each is read here, before the
-- first write, and the error names its place.
local LARGEST = 9007199254740991

-- A whole number as HINCRBY writes it, or nil.
local function whole(text)
  if text ~= '0' and (#text > 16 or not string.match(text, '^[1-9]%d*$')) then return nil end
  local number = tonumber(text)
  return number <= LARGEST and number or nil
end

-- A field of a hash that counts something; one that is missing counts 0.
local function counted(key, field, value)
  if not value then return 0 end
  local number = whole(value)
  if number then return number end
  local shown = string.gsub(string.sub(value, 1, 40), '[^%w%p ]', '?')
  error('BADVALUE ' .. key .. ' ' .. field .. ' holds "' .. shown
    .. '", which is not a whole number below 2^53', 0)
end


-- Fragment: counts, which are fields of hashes. Redis does not undo what a script wrote before it
-- failed. So a script checks the counts that it adds to before its first write.
-- Constants from bounds.rs: MAX_EXACT.

-- A whole number below MAX_EXACT, written as HINCRBY writes it. Returns nil for any other text.
local function parse_count(text)
  if text ~= '0' and (#text > 16 or not string.match(text, '^[1-9]%d*$')) then return nil end
  local number = tonumber(text)
  return number < MAX_EXACT and number or nil
end

-- The count in a field that has been read; 0 if there is no field. Fails with BADVALUE, which
-- names key and field, if the value is not a count.
local function checked_count(key, field, value)
  if not value then return 0 end
  local number = parse_count(value)
  if number then return number end
  local printable = string.gsub(string.sub(value, 1, 40), '[^%w%p ]', '?')
  error('BADVALUE ' .. key .. ' ' .. field .. ' holds "' .. printable
    .. '", which is not a whole number below 2^53', 0)
end

-- Reads the count in a field; nil if there is no field. Fails as checked_count does.
local function read_count(key, field)
  local value = redis.call('HGET', key, field)
  return value and checked_count(key, field, value)
end


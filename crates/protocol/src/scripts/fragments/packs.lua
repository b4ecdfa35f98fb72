-- Fragment: packs. Each is a string with a key of its own, which ends with the sequence number of
-- its first message. Any program can write such a key, so its type is not certain.

-- The length of a pack; 0 if it is missing, or if its key has another type.
local function pack_bytes(key)
  local bytes = redis.pcall('STRLEN', key)
  if type(bytes) == 'number' then return bytes end
  if not string.find(bytes.err, 'WRONGTYPE', 1, true) then error(bytes.err, 0) end
  return 0
end


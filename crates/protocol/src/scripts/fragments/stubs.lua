-- Fragment: stubs. A long record has a key of its own, so that its text passes through no script of a
-- commit. The errors store has a stub in its place: `long LENGTH NAME`. The worker that makes the
-- record gives it a name that no other record ever has, and puts it under `staged` and that name; the
-- commit moves it to `record_key` and the id. The key is a hash with one field, `record`: who may take
-- failed messages needs no right to read or delete strings, which the packs are.
-- Constants from bounds.rs: MAX_STUB_BYTES.

-- The length and the name of the record that a stub stands for; nil if it is no stub.
local function parse_stub(stored)
  if #stored > MAX_STUB_BYTES then return nil end
  local length, name = string.match(stored, '^long (%d+) ([%w:]+)$')
  if not length or #length > 15 then return nil end
  return tonumber(length), name
end

-- The length of a stored record; 0 if there is none with this id.
local function record_bytes(errors, id)
  local bytes = redis.call('HSTRLEN', errors, id)
  if bytes == 0 or bytes > MAX_STUB_BYTES then return bytes end
  return parse_stub(redis.call('HGET', errors, id)) or bytes
end

-- A long record; '' if it is not there. Any program can write such a key, so its type is not certain.
local function long_record(record_key, id)
  local record = redis.pcall('HGET', record_key .. id, 'record')
  if type(record) ~= 'table' then return record or '' end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then error(record.err, 0) end
  return ''
end

-- Deletes the long ones among the records ids[from..to]. A key of another type is none of ours.
local function delete_records(record_key, ids, from, to)
  for i = from, to do redis.pcall('HDEL', record_key .. ids[i], 'record') end
end

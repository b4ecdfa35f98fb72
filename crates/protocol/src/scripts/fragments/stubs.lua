-- Fragment: stubs. A long record has a key of its own, so that its text passes through no script of a
-- commit. The errors store has a stub in its place: `long LENGTH NAME`. The worker that makes the
-- record gives it a name that no other record ever has, and puts it under `staged` and that name; the
-- commit moves it to `record_key` and the id.
-- Constants from bounds.rs: MAX_STUB_BYTES.

-- The length and the name of the record that a stub stands for; nil if it is no stub.
local function parse_stub(stored)
  if #stored > MAX_STUB_BYTES then return nil end
  return string.match(stored, '^long (%d+) ([^ ]+)$')
end

-- The length of a stored record; 0 if there is none with this id.
local function record_bytes(errors, id)
  local bytes = redis.call('HSTRLEN', errors, id)
  if bytes == 0 or bytes > MAX_STUB_BYTES then return bytes end
  return tonumber((parse_stub(redis.call('HGET', errors, id)))) or bytes
end

-- The text in the answer to a pcall that reads the key of a long record; '' if there is none. Any program
-- can write such a key, so its type is not certain.
local function text_of(answer)
  if type(answer) ~= 'table' then return answer or '' end
  if not string.find(answer.err, 'WRONGTYPE', 1, true) then error(answer.err, 0) end
  return ''
end

-- Deletes the keys of the long ones among the records ids[from..to].
local function delete_records(record_key, ids, from, to)
  local MAX_AT_ONCE = 1000
  for first = from, to, MAX_AT_ONCE do
    local names = {}
    for i = first, math.min(first + MAX_AT_ONCE - 1, to) do
      names[#names + 1] = record_key .. ids[i]
    end
    redis.call('DEL', unpack(names))
  end
end

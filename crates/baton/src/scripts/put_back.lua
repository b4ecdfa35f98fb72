-- Shared: the way back. Needs range, bell and claimed.
--
-- Ends the claim of a slot and returns what it held to the front of where it came from.
-- Returns how many messages and how many error records went back.
local function put_back(keys, slot, value, crashed)
  redis.call('HDEL', keys.claims, slot)
  redis.call('ZREM', keys.deadlines, slot)
  local kind, _, _, body = parse_claim(value)
  if kind == 'e' then
    local fine, records = pcall(cmsgpack.unpack, body)
    if fine and type(records) == 'table' then
      for i = #records, 1, -1 do redis.call('LPUSH', keys.errors, records[i]) end
      return 0, #records
    end
  end
  local p, n, a, b, c
  if kind == 'm' then p, n, a, b, c = parse_range(body) end
  if not p then
    -- Not written by a script of ours: keep the bytes where the claim script finds them.
    redis.call('LPUSH', keys.queue, value)
    return 0, 0
  end
  redis.call('LPUSH', keys.queue, format_range(p, n, a, b, crashed and c + 1 or c))
  ring(keys.bell)
  return b - a + 1, 0
end


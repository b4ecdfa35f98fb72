-- Shared: the way back. Needs range, suspects, bell, claimed and errors.
--
-- Ends the claim of a slot and returns what it held to the front of where it came from.
-- `lost` is nil for a worker that gives back by itself; else {now = time, run = of the server,
-- prefix = of presence}: the worker may have died, and is noted as a suspect.
-- Returns how many messages and how many error records went back.
local function put_back(keys, slot, value, lost)
  redis.call('HDEL', keys.claims, slot)
  redis.call('ZREM', keys.deadlines, slot)
  local kind, _, _, body = parse_claim(value)
  if kind == 'e' then
    local claimed = claimed_ids(body)
    if claimed then
      delete_ids(keys.errors_held, claimed, 1, #claimed)
      release(keys.errors_ids, claimed, 1)
      return 0, #claimed
    end
  end
  local p, n, a, b, c, _, tail
  if kind == 'm' then p, n, a, b, c, _, tail = parse_range(body) end
  if not p then
    -- Not written by a script of ours: keep the bytes where the claim script finds them.
    redis.call('LPUSH', keys.queue, value)
    return 0, 0
  end
  if lost then
    local _, _, names = suspects(tail, lost.prefix)
    local node = string.match(slot, '^([^:]*)')
    local known = false
    for _, name in ipairs(names) do known = known or name == node end
    if not known then names[#names + 1] = node end
    c, tail = c + 1, format_suspects(lost.now, lost.run, names)
  end
  redis.call('LPUSH', keys.queue, format_range(p, n, a, b, c, tail))
  ring(keys.bell)
  return b - a + 1, 0
end


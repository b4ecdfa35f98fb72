-- Fragment: ends a claim without a commit. Needs range, suspects, ring, claim_value and
-- errors_store.

-- Ends the claim of a slot: its messages go to the queue, or its records are free.
--   keys      {queue, claims, deadlines, idle, errors_held, errors_ids}, by name
--   presence  prefix of the presence channels
--   slot      node:part
--   value     what `claims` holds for the slot
--   lost      nil if the slot itself gives back; else {now, run_id}, by name: the time and the
--             server process. The worker may have died, and becomes a suspect
--   push      'LPUSH' for the front of the queue, 'RPUSH' for its end
-- Returns how many messages and how many records came back.
local function put_back(keys, presence, slot, value, lost, push)
  redis.call('HDEL', keys.claims, slot)
  redis.call('ZREM', keys.deadlines, slot)
  local kind, _, _, body = parse_claim(value)
  local ids = kind == 'e' and parse_ids(body)
  if ids then
    delete_ids(keys.errors_held, ids, 1, #ids)
    lower_free(keys.errors_ids, ids, 1)
    return 0, #ids
  end
  local pack, count, first, last, returns, _, tail
  if kind == 'm' then pack, count, first, last, returns, _, tail = parse_range(body) end
  if not pack then
    -- No script of ours wrote this value. The claim script moves it to the errors store.
    redis.call('LPUSH', keys.queue, value)
    return 0, 0
  end
  if lost then
    local _, _, names = absent_suspects(tail, presence)
    local node = string.match(slot, '^([^:]*)')
    local known = false
    for _, name in ipairs(names) do known = known or name == node end
    if not known then names[#names + 1] = node end
    returns, tail = returns + 1, format_suspects(lost.now, lost.run_id, names)
  end
  redis.call(push, keys.queue, format_range(pack, count, first, last, returns, tail))
  ring(keys.idle, keys.queue, presence)
  return last - first + 1, 0
end


-- give_back: a slot returns what its claim still holds, or the end of it, at once and without
-- blame.
--
-- KEYS
--   1 queue        list of ranges
--   2 claims       hash: slot -> its claim
--   3 deadlines    zset: slot -> until when its claim holds (ms)
--   4 workers      hash: slot -> what it ended last
--   5 idle         zset: idle node -> since when (ms)
--   6 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   7 errors_ids   hash: last, free
-- ARGV
--   1 slot      node:part
--   2 number    of the claim
--   3 presence  prefix of the presence channels
--   4 keep      last message that the slot keeps; '' if it keeps none
--   5 place     'front' of the queue, or its 'end': for messages that another one should go before
-- Returns
--   {'ok'}    the claim has ended, or ends with `keep`
--   {'lost'}  the slot does not hold this claim, or the claim does not have `keep`
-- Invariants
--   The messages are in the queue in the step in which they leave the claim.
local keys = {queue = KEYS[1], claims = KEYS[2], deadlines = KEYS[3], workers = KEYS[4],
  idle = KEYS[5], errors_held = KEYS[6], errors_ids = KEYS[7]}
local slot, number, presence, keep_text, place = unpack(ARGV)

local held = redis.call('HGET', keys.claims, slot)
if not held then return {'lost'} end
local kind, held_number, run_id, body = parse_claim(held)
if held_number ~= tonumber(number) then return {'lost'} end
local keep = tonumber(keep_text)
local pack, count, first, last, returns, _, tail
if keep then
  if kind == 'm' then pack, count, first, last, returns, _, tail = parse_range(body) end
  if not pack or keep < first or keep > last then return {'lost'} end
  if keep == last then return {'ok'} end
end
must_be(keys.queue, 'list')
must_be(keys.deadlines, 'zset')
must_be(keys.workers, 'hash')
must_be(keys.idle, 'zset')
must_be(keys.errors_held, 'hash')
must_be(keys.errors_ids, 'hash')
local now_s = redis.call('TIME')[1]

if keep then
  -- The first write needs no memory, so a full server accepts it.
  redis.call('HDEL', keys.claims, slot)
  redis.call('HSET', keys.claims, slot, 'm ' .. number .. ' ' .. run_id .. ' '
    .. format_range(pack, count, first, keep, returns, tail))
  redis.call('LPUSH', keys.queue, format_range(pack, count, keep + 1, last, returns, tail))
  ring(keys.idle, keys.queue, presence)
  return {'ok'}
end
put_back(keys, presence, slot, held, nil, place == 'end' and 'RPUSH' or 'LPUSH')
-- A late duplicate of the claim is stale from here on.
redis.call('HSET', keys.workers, slot, number .. ' 0 0 ' .. now_s)
return {'ok'}

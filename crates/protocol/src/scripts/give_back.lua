-- give_back: a slot returns what its claim still holds, at once and without blame.
--
-- KEYS
--   1 queue        list of ranges
--   2 claims       hash: slot -> its claim
--   3 deadlines    zset: slot -> until when its claim holds (ms)
--   4 workers      hash: slot -> what it ended last
--   5 idle         zset: idle node -> since when (ms)
--   6 bell         prefix of the bells
--   7 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   8 errors_ids   hash: last, free
-- ARGV
--   1 slot      node:part
--   2 number    of the claim
--   3 presence  prefix of the presence channels
-- Returns
--   {'ok'}    the claim has ended
--   {'lost'}  the slot does not hold this claim
-- Invariants
--   The messages are in the queue in the step that ends the claim.
local keys = {queue = KEYS[1], claims = KEYS[2], deadlines = KEYS[3], workers = KEYS[4],
  idle = KEYS[5], bell = KEYS[6], errors_held = KEYS[7], errors_ids = KEYS[8]}
local slot, number, presence = unpack(ARGV)

local held = redis.call('HGET', keys.claims, slot)
if not held then return {'lost'} end
local _, held_number = parse_claim(held)
if held_number ~= tonumber(number) then return {'lost'} end
must_be(keys.queue, 'list')
must_be(keys.deadlines, 'zset')
must_be(keys.workers, 'hash')
must_be(keys.idle, 'zset')
must_be(keys.errors_held, 'hash')
must_be(keys.errors_ids, 'hash')
local now_s = redis.call('TIME')[1]

put_back(keys, presence, slot, held, nil)
-- A late duplicate of the claim is stale from here on.
redis.call('HSET', keys.workers, slot, number .. ' 0 0 ' .. now_s)
return {'ok'}

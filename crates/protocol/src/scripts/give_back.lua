-- give_back: returns what a claim still holds, at once and without blame.
--
-- KEYS  1 queue  2 claims  3 deadlines  4 workers  5 bell  6 errors_held  7 errors_ids
-- ARGV  1 slot  2 number of the claim
-- Returns {'ok'}, or {'lost'} when the slot holds no such claim (any more)
-- Keeps: the messages are in the queue again in the step that ends the claim.
local slot, number = ARGV[1], tonumber(ARGV[2])
local keys = {queue = KEYS[1], claims = KEYS[2], deadlines = KEYS[3], bell = KEYS[5],
  errors_held = KEYS[6], errors_ids = KEYS[7]}
local held = redis.call('HGET', KEYS[2], slot)
if not held then return {'lost'} end
local _, held_number = parse_claim(held)
if held_number ~= number then return {'lost'} end
redis.call('LLEN', KEYS[1])
redis.call('ZCARD', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
must_be(keys.errors_held, 'hash')
must_be(keys.errors_ids, 'hash')
local now_s = redis.call('TIME')[1]
put_back(keys, slot, held, nil)
-- A late duplicate of the claim must not take messages for a slot that moved on.
redis.call('HSET', KEYS[4], slot, ARGV[2] .. ' 0 0 ' .. now_s)
return {'ok'}

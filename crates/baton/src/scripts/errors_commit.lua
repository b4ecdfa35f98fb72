-- errors_commit: the first `printed` records of a drain's claim are gone for good, the rest return.
--
-- KEYS  1 errors  2 claims  3 deadlines  4 workers
-- ARGV  1 slot  2 number of the claim  3 how many were printed
-- Returns {'done'}, {'already'} or {'lost'}
-- Keeps: a record is dropped only here, and only by the drain that holds it.
local slot, number, printed = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local settled = redis.call('HGET', KEYS[4], slot)
if settled and tonumber(string.match(settled, '^(%d+) ')) == number then return {'already'} end
local held = redis.call('HGET', KEYS[2], slot)
if not held then return {'lost'} end
local kind, held_number, _, body = parse_claim(held)
if kind ~= 'e' or held_number ~= number then return {'lost'} end
redis.call('LLEN', KEYS[1])
redis.call('ZCARD', KEYS[3])
local now_s = redis.call('TIME')[1]
local records = cmsgpack.unpack(body)
redis.call('HDEL', KEYS[2], slot)
redis.call('ZREM', KEYS[3], slot)
for i = #records, printed + 1, -1 do redis.call('LPUSH', KEYS[1], records[i]) end
redis.call('HSET', KEYS[4], slot, ARGV[2] .. ' 0 0 ' .. now_s)
return {'done'}

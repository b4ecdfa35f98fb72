-- errors_commit: the first `printed` records of a drain's claim are gone for good, the rest are
-- free again.
--
-- KEYS  1 errors  2 claims  3 deadlines  4 workers  5 errors_held  6 errors_ids
-- ARGV  1 slot  2 number of the claim  3 how many were printed
-- Returns {'done'}, {'already'} or {'lost'}
-- Keeps: a record that a drain holds is removed only here, and only by that drain.
local errors, claims, deadlines, workers, held_by, ids = unpack(KEYS)
local slot, number, printed = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local settled = redis.call('HGET', workers, slot)
if settled then
  -- A claim that was given back has the same number, and printed nothing.
  local settled_number, settled_printed = string.match(settled, '^(%d+) 0 (%d+) ')
  if tonumber(settled_number) == number and tonumber(settled_printed) == printed then
    return {'already'}
  end
end
local held = redis.call('HGET', claims, slot)
if not held then return {'lost'} end
local kind, held_number, _, body = parse_claim(held)
local claimed = kind == 'e' and held_number == number and claimed_ids(body)
if not claimed then return {'lost'} end
must_be(errors, 'hash')
must_be(deadlines, 'zset')
must_be(held_by, 'hash')
must_be(ids, 'hash')
local now_s = redis.call('TIME')[1]
redis.call('HDEL', claims, slot)
redis.call('ZREM', deadlines, slot)
delete_ids(errors, claimed, 1, math.min(printed, #claimed))
delete_ids(held_by, claimed, 1, #claimed)
release(ids, claimed, printed + 1)
redis.call('HSET', workers, slot, ARGV[2] .. ' 0 ' .. ARGV[3] .. ' ' .. now_s)
return {'done'}

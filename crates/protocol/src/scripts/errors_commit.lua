-- errors_commit: ends a drain's claim. The records that it names leave the errors store, the others
-- are free again.
--
-- KEYS
--   1 errors       hash: id -> record
--   2 claims       hash: slot -> its claim
--   3 deadlines    zset: slot -> until when its claim holds (ms)
--   4 workers      hash: slot -> what it ended last
--   5 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   6 errors_ids   hash: last, free
--   7 stats        hash: counters
--   8 record_key   prefix of the keys of long records; an id follows
-- ARGV
--   1 slot     of the drain
--   2 number   of the claim
--   3 removed  how many records of the claim leave the store, from its first on
--   4 dropped  how many of those count as dropped: no reader got them
-- Returns
--   {'done'}     the claim has ended
--   {'already'}  it had ended: this call did it earlier
--   {'lost'}     the slot does not hold this claim
-- Invariants
--   A record that a drain holds leaves the store only here, and only by that drain.
local errors, claims, deadlines, workers, errors_held, errors_ids, stats, record_key =
  unpack(KEYS)
local slot, number_text, removed_text, dropped_text = unpack(ARGV)
local number, removed = tonumber(number_text), tonumber(removed_text)
local dropped = tonumber(dropped_text)

local ended = redis.call('HGET', workers, slot)
if ended then
  -- A claim that the slot gave back has this number, too, and removed nothing.
  local ended_number, ended_removed = string.match(ended, '^(%d+) 0 (%d+) ')
  if tonumber(ended_number) == number and tonumber(ended_removed) == removed then
    return {'already'}
  end
end
local held = redis.call('HGET', claims, slot)
if not held then return {'lost'} end
local kind, held_number, _, body = parse_claim(held)
local ids = kind == 'e' and held_number == number and parse_ids(body)
if not ids then return {'lost'} end
must_be(errors, 'hash')
must_be(deadlines, 'zset')
must_be(errors_held, 'hash')
must_be(errors_ids, 'hash')
local dropped_before = read_count(stats, 'dropped') or 0
local now_s = redis.call('TIME')[1]

redis.call('HDEL', claims, slot)
redis.call('ZREM', deadlines, slot)
delete_ids(errors, ids, 1, math.min(removed, #ids))
delete_records(record_key, ids, 1, math.min(removed, #ids))
delete_ids(errors_held, ids, 1, #ids)
lower_free(errors_ids, ids, removed + 1)
if dropped > 0 then
  redis.call('HSET', stats, 'dropped', string.format('%.0f', dropped_before + dropped))
end
redis.call('HSET', workers, slot, number_text .. ' 0 ' .. removed_text .. ' ' .. now_s)
return {'done'}

-- commit: ends the first messages of a claim, or all of them. Outcomes, counters and effects in
-- one step.
--
-- KEYS
--   1 claims      hash: slot -> its claim
--   2 deadlines   zset: slot -> until when its claim holds (ms)
--   3 pack_key    prefix of the packs' keys; the first sequence number of a pack follows
--   4 left        hash: first sequence number of a pack -> how many of its messages have not
--                 ended, if some have
--   5 workers     hash: slot -> what it ended last
--   6 stats       hash: counters
--   7 errors      hash: id -> record
--   8 ledger      list of entries
--   9 errors_ids  hash: last, free
--   10...         one key for each effect
-- ARGV
--   1 slot        node:lane
--   2 number      of the claim
--   3 first       first message of the claim
--   4 last        last message that ends
--   5 max_errors  how many records the errors store may have
--   6 digest      of the texts, for the ledger; '' if the fleet keeps none
--   7 failed      how many of the messages failed
--   8...          their records, then the effects, see effects
-- Returns
--   {'done'}             the messages have ended
--   {'already'}          they had ended: this call did it earlier
--   {'lost'}             the slot does not hold this claim, or it does not begin with `first`
--   {'full', records}    the errors store has no room; nothing is written
--   {'refused', reason}  an effect would fail; nothing is written
-- Invariants
--   A message ends once. The claim holds exactly the named messages, from its start on.
--   The first write frees memory, so a full server accepts commits.
local claims, deadlines, pack_key, left_of, workers, stats, errors, ledger, errors_ids =
  unpack(KEYS, 1, 9)
local slot, number_text, first_text, last_text, max_errors, digest, failed_text =
  unpack(ARGV, 1, 7)
local number, first, last = tonumber(number_text), tonumber(first_text), tonumber(last_text)
local failed = tonumber(failed_text)
local FIRST_RECORD, FIRST_EFFECT_KEY = 8, 10

local ended = redis.call('HGET', workers, slot)
if ended then
  local ended_number, ended_first, ended_last = string.match(ended, '^(%d+) (%d+) (%d+) ')
  if tonumber(ended_number) == number and tonumber(ended_first) == first
    and tonumber(ended_last) == last then return {'already'} end
end
local held = redis.call('HGET', claims, slot)
if not held then return {'lost'} end
local kind, held_number, run_id, body = parse_claim(held)
if kind ~= 'm' or held_number ~= number then return {'lost'} end
local pack, pack_count, held_first, held_last, returns, field, tail = parse_range(body)
local count = last - first + 1
if not pack or held_first ~= first or count < 1 or last > held_last or failed > count then
  return {'lost'}
end

local last_error
if failed > 0 then
  local records = redis.call('HLEN', errors)
  if records + failed > tonumber(max_errors) then
    return {'full', string.format('%.0f', records)}
  end
  last_error = last_id(errors, errors_ids)
end
local effects, reason = check_effects(FIRST_RECORD + failed, FIRST_EFFECT_KEY)
if not effects then return {'refused', reason} end
local is_whole_pack = count == pack_count
local left = is_whole_pack and 0 or (read_count(left_of, field) or pack_count) - count
if last < held_last then must_be(deadlines, 'zset') end
local counters = redis.call('HMGET', stats, 'done', 'failed')
if checked_count(stats, 'done', counters[1]) + count >= MAX_EXACT
  or checked_count(stats, 'failed', counters[2]) + count >= MAX_EXACT then
  error('BADVALUE ' .. stats .. ' done or failed cannot grow: it would reach 2^53', 0)
end
if digest ~= '' then must_be(ledger, 'list') end
local time = redis.call('TIME')

-- It fails, and writes nothing, if `deadlines` has another type.
if last == held_last then redis.call('ZREM', deadlines, slot) end
redis.call('HDEL', claims, slot)
if last < held_last then
  redis.call('HSET', claims, slot, 'm ' .. number_text .. ' ' .. run_id .. ' '
    .. format_range(pack, pack_count, last + 1, held_last, returns, tail))
end
if left <= 0 then
  redis.call('DEL', pack_key .. field)
  if not is_whole_pack then redis.call('HDEL', left_of, field) end
else
  redis.call('HSET', left_of, field, string.format('%.0f', left))
end
if count > failed then redis.call('HINCRBY', stats, 'done', count - failed) end
if failed > 0 then
  redis.call('HINCRBY', stats, 'failed', failed)
  append_records(errors, errors_ids, last_error, ARGV, FIRST_RECORD, FIRST_RECORD + failed - 1)
end
redis.call('HSET', workers, slot,
  number_text .. ' ' .. first_text .. ' ' .. last_text .. ' ' .. time[1])
if digest ~= '' then
  append_entry(ledger, 'c ' .. slot .. ' ' .. first_text .. ' ' .. last_text .. ' '
    .. failed_text .. ' ' .. digest, time)
end
for _, effect in ipairs(effects) do redis.call(unpack(effect)) end
return {'done'}

-- commit: ends the first messages of a claim, or all of them. Outcomes, counters and effects in
-- one step. Messages that are to be tried again wait in `delayed`.
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
--   10 delayed    zset: range of one message -> when its next attempt is due (ms)
--   11 notes      hash: sequence number of a message that was tried before -> first and last reason
--   12 record_key  prefix of the keys of long records; an id follows
--   13 staged     prefix of the keys where workers put long records
--   14...         one key for each effect
-- ARGV
--   1 slot        node:lane
--   2 number      of the claim
--   3 first       first message of the claim
--   4 last        last message that the commit is about
--   5 max_errors  how many records the errors store may have
--   6 digest      of the texts, for the ledger; '' if the fleet keeps none
--   7 failed      how many of the messages failed
--   8 delays      how many of them are to be tried again
--   9 longs       how many of the records are long: then there is a stub in place of each, see stubs
--   10...         the records of the failed ones; then for each delayed one, in ascending order:
--                 its number, its delay in ms, its note, and a pack that has it alone ('' if it is
--                 the first of its pack); then the effects, see effects
-- Returns
--   {'done'}             the messages have ended, or wait in `delayed`
--   {'already'}          this call did it earlier
--   {'lost'}             the slot does not hold this claim, or it does not begin with `first`
--   {'full', records}    the errors store has no room; nothing is written
--   {'refused', reason}  an effect would fail; nothing is written
--   {'missing'}          a long record is not where its stub says; nothing is written
-- Invariants
--   A message ends once. The claim holds exactly the named messages, from its start on.
--   A message leaves the claim and enters `delayed` in one step. The first message of a pack stays
--   in it. Every other one gets a pack of its own, because its old pack may be large.
--   Only a message that has not ended has a note.
--   The first write frees memory, so a full server accepts commits.
--   A stub and its record enter the errors store in one step. A staged record expires unless this
--   script takes it. No other worker writes its key.
local claims, deadlines, pack_key, left_of, workers, stats, errors, ledger, errors_ids, delayed,
  notes, record_key, staged = unpack(KEYS, 1, 13)
local slot, number_text, first_text, last_text, max_errors, digest, failed_text, delays_text, longs =
  unpack(ARGV, 1, 9)
local number, first, last = tonumber(number_text), tonumber(first_text), tonumber(last_text)
local failed, delays = tonumber(failed_text), tonumber(delays_text)
local FIRST_RECORD, FIRST_EFFECT_KEY = 10, 14
local FIRST_DELAY, DELAY_WORDS = FIRST_RECORD + failed, 4

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
if not pack or held_first ~= first or count < 1 or last > held_last or failed + delays > count then
  return {'lost'}
end
local end_of_delays, stays_in_pack = FIRST_DELAY + delays * DELAY_WORDS, 0
local before = first - 1
for at = FIRST_DELAY, end_of_delays - 1, DELAY_WORDS do
  local seq = tonumber(ARGV[at])
  if seq <= before or seq > last then return {'lost'} end
  if seq == pack then stays_in_pack = 1 end
  before = seq
end

local last_error
if failed > 0 then
  local records = redis.call('HLEN', errors)
  if records + failed > tonumber(max_errors) then
    return {'full', string.format('%.0f', records)}
  end
  last_error = last_id(errors, errors_ids)
end
local long_records = {}
if longs ~= '0' then long_records = staged_records(FIRST_RECORD, failed, staged) end
if not long_records then return {'missing'} end
local effects, reason = check_effects(end_of_delays, FIRST_EFFECT_KEY)
if not effects then return {'refused', reason} end
local leave_pack = count - stays_in_pack
local is_whole_pack = leave_pack == pack_count
local left = is_whole_pack and 0 or (read_count(left_of, field) or pack_count) - leave_pack
if last < held_last then must_be(deadlines, 'zset') end
local counters = redis.call('HMGET', stats, 'done', 'failed')
if checked_count(stats, 'done', counters[1]) + count >= MAX_EXACT
  or checked_count(stats, 'failed', counters[2]) + count >= MAX_EXACT then
  error('BADVALUE ' .. stats .. ' done or failed cannot grow: it would reach 2^53', 0)
end
if digest ~= '' then must_be(ledger, 'list') end
if delays > 0 then must_be(delayed, 'zset') end
if delays > 0 or returns > 0 then must_be(notes, 'hash') end
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
elseif leave_pack > 0 then
  redis.call('HSET', left_of, field, string.format('%.0f', left))
end
if count > failed + delays then
  redis.call('HINCRBY', stats, 'done', count - failed - delays)
end
if failed > 0 then
  redis.call('HINCRBY', stats, 'failed', failed)
  append_records(errors, errors_ids, last_error, ARGV, FIRST_RECORD, FIRST_RECORD + failed - 1)
  take_records(long_records, record_key, last_error)
end
redis.call('HSET', workers, slot,
  number_text .. ' ' .. first_text .. ' ' .. last_text .. ' ' .. time[1])
if digest ~= '' then
  append_entry(ledger, 'c ' .. slot .. ' ' .. first_text .. ' ' .. last_text .. ' '
    .. failed_text .. ' ' .. digest, time)
end
if returns > 0 then
  local tried = {}
  for seq = first, last do tried[#tried + 1] = string.format('%.0f', seq) end
  redis.call('HDEL', notes, unpack(tried))
end
for at = FIRST_DELAY, end_of_delays - 1, DELAY_WORDS do
  local seq_text, delay_ms, note, pack_of_one = unpack(ARGV, at, at + DELAY_WORDS - 1)
  local seq, waits_in, messages = tonumber(seq_text), pack, pack_count
  if seq ~= pack then
    redis.call('SET', pack_key .. seq_text, pack_of_one)
    waits_in, messages = seq, 1
  end
  local due = time[1] * 1000 + math.floor(time[2] / 1000) + delay_ms
  redis.call('ZADD', delayed, string.format('%.0f', due),
    format_range(waits_in, messages, seq, seq, returns + 1, ''))
  redis.call('HSET', notes, seq_text, note)
  if digest ~= '' then append_entry(ledger, 'd ' .. seq_text, time) end
end
for _, effect in ipairs(effects) do redis.call(unpack(effect)) end
return {'done'}

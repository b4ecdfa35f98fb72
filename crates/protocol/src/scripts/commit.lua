-- commit: ends a claim, or its first part. Outcomes, counters and effects in one step.
--
-- KEYS  1 claims  2 deadlines  3 packs  4 left  5 workers  6 stats  7 errors  8 ledger
--       9 errors_ids  10.. one per effect
-- ARGV  1 slot  2 number of the claim  3 first  4 last of the messages that end
--       5 most error records kept  6 digest of the texts, for the ledger; '' if none is kept
--       7 how many failed  8.. their error records
--       then the effects (see effects.lua)
-- Returns
--   {'done'}
--   {'already'}            an earlier try of this very call did it
--   {'lost'}               the claim is no longer this slot's
--   {'full', records}      the errors store has no room: nothing was written
--   {'refused', reason}    an effect would fail: nothing was written
-- Keeps: each message ends once; the claim must hold exactly the named messages, from its start.
-- The first write frees memory, so a full server still takes commits.
local slot, number = ARGV[1], tonumber(ARGV[2])
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
local most_errors, failed = tonumber(ARGV[5]), tonumber(ARGV[7])

local settled = redis.call('HGET', KEYS[5], slot)
if settled then
  local settled_number, settled_first, settled_last = string.match(settled, '^(%d+) (%d+) (%d+) ')
  if tonumber(settled_number) == number and tonumber(settled_first) == first
    and tonumber(settled_last) == last then return {'already'} end
end
local held = redis.call('HGET', KEYS[1], slot)
if not held then return {'lost'} end
local kind, held_number, run, body = parse_claim(held)
if kind ~= 'm' or held_number ~= number then return {'lost'} end
local p, n, a, b, c, pack, tail = parse_range(body)
if not p or a ~= first or last < first or last > b or failed > last - first + 1 then
  return {'lost'}
end

local last_error
if failed > 0 then
  local records = redis.call('HLEN', KEYS[7])
  if records + failed > most_errors then return {'full', string.format('%.0f', records)} end
  last_error = last_id(KEYS[7], KEYS[9])
end
local effects, reason = check_effects(8 + failed, 10)
if not effects then return {'refused', reason} end
local count = last - first + 1
local whole_pack = count == n
local left = whole_pack and 0 or (whole_number(KEYS[4], pack) or n) - count
redis.call('HLEN', KEYS[3])
redis.call('ZCARD', KEYS[2])
local stats = redis.call('HMGET', KEYS[6], 'done', 'failed')
if counted(KEYS[6], 'done', stats[1]) + count > LARGEST
  or counted(KEYS[6], 'failed', stats[2]) + count > LARGEST then
  error('BADVALUE ' .. KEYS[6] .. ' is at its end: nothing more can be counted', 0)
end
local audited = ARGV[6] ~= ''
if audited then redis.call('LLEN', KEYS[8]) end
local time = redis.call('TIME')

redis.call('HDEL', KEYS[1], slot)
if last == b then
  redis.call('ZREM', KEYS[2], slot)
else
  redis.call('HSET', KEYS[1], slot,
    'm ' .. ARGV[2] .. ' ' .. run .. ' ' .. format_range(p, n, last + 1, b, c, tail))
end
if left <= 0 then
  redis.call('HDEL', KEYS[3], pack)
  if not whole_pack then redis.call('HDEL', KEYS[4], pack) end
else
  redis.call('HSET', KEYS[4], pack, string.format('%.0f', left))
end
if count > failed then redis.call('HINCRBY', KEYS[6], 'done', count - failed) end
if failed > 0 then
  redis.call('HINCRBY', KEYS[6], 'failed', failed)
  append(KEYS[7], KEYS[9], last_error, ARGV, 8, 7 + failed)
end
redis.call('HSET', KEYS[5], slot,
  ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. time[1])
if audited then
  record(KEYS[8],
    'c ' .. slot .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[7] .. ' ' .. ARGV[6], time)
end
for _, effect in ipairs(effects) do redis.call(unpack(effect)) end
return {'done'}

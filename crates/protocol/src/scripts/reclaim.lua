-- reclaim: returns the claims of dead workers: past their deadline, or gone from presence.
--
-- KEYS  1 queue  2 claims  3 deadlines  4 workers  5 bell  6 errors_held  7 errors_ids
-- ARGV  1 run of the server ('' believes absence whatever the run)  2 prefix of presence channels
--       3 most claims looked at  4 how many with earlier deadlines are passed over
--       5 error records after which the other claims wait for the next call
--       6 how many claims are looked at for one without a deadline
-- Returns {'reclaimed', messages, error records, name of a dead node...}
-- Keeps: a range enters the queue in the step in which it leaves `claims`, with the name of the
-- worker that may have died. Also strikes off suspects that are present, re-rings a bell whose
-- token a dying sleeper took along, and gives a deadline to claims that have none.
local run, prefix, most, skip = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local most_records, look = tonumber(ARGV[5]), tonumber(ARGV[6])
local keys = {queue = KEYS[1], claims = KEYS[2], deadlines = KEYS[3], bell = KEYS[5],
  errors_held = KEYS[6], errors_ids = KEYS[7]}
local WORKERS_FORGET_S = 600
local LAST_LOOK = 2
local SUSPECT_LOOK = 16

-- The earliest deadlines first: what the dead held is never extended and ends up here.
local due = redis.call('ZRANGE', KEYS[3], skip, skip + most - 1, 'WITHSCORES')
-- And the last ones, which may have been made under a clock that was ahead.
if redis.call('ZCARD', KEYS[3]) > skip + most then
  local last = redis.call('ZRANGE', KEYS[3], -LAST_LOOK, -1, 'WITHSCORES')
  for i = 1, #last do due[#due + 1] = last[i] end
end
local waiting = redis.call('LLEN', KEYS[1])
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
must_be(keys.errors_held, 'hash')
must_be(keys.errors_ids, 'hash')
local now = now_ms()

local holders, values = {}, {}
for i = 1, #due, 2 do
  local slot = due[i]
  local value = redis.call('HGET', KEYS[2], slot)
  values[slot] = value
  local claim_run = value and select(3, parse_claim(value))
  holders[#holders + 1] = {name = string.match(slot, '^([^:]*)'), run = claim_run or ''}
end
local gone = absent(prefix, run, holders)

-- First write, and a harmless one that needs no memory.
redis.call('HDEL', KEYS[2], '')
local messages, records, names, named = 0, 0, {}, {}
for i = 1, #due, 2 do
  local slot = due[i]
  local name = string.match(slot, '^([^:]*)')
  if records < most_records and (is_past(tonumber(due[i + 1]), now) or gone[name]) then
    if values[slot] then
      local m, r = put_back(keys, slot, values[slot], {now = now, run = run, prefix = prefix})
      values[slot] = nil
      messages, records = messages + m, records + r
      if not named[name] then
        named[name] = true
        names[#names + 1] = name
      end
    else
      redis.call('ZREM', KEYS[3], slot)
    end
  end
end
if waiting > 0 then ring(KEYS[5]) end

-- Claims look at suspects now and then, this script looks all the time: one that was back for a
-- moment did not die. What came back lies at the head, what waits for a verdict at the end.
local function acquit(first, last)
  for i, text in ipairs(redis.call('LRANGE', KEYS[1], first, last)) do
    local p, n, a, b, c, _, tail = parse_range(text)
    if p and tail ~= '' then
      local left = format_suspects(suspects(tail, prefix))
      if left ~= tail then
        redis.call('LSET', KEYS[1], first + i - 1, format_range(p, n, a, b, c, left))
      end
    end
  end
end
local length = redis.call('LLEN', KEYS[1])
acquit(0, SUSPECT_LOOK - 1)
acquit(math.max(SUSPECT_LOOK, length - SUSPECT_LOOK), length - 1)

-- No script of ours makes a claim without a deadline; one that has none would last for ever.
for _, slot in ipairs(redis.call('HRANDFIELD', KEYS[2], look)) do
  if not redis.call('ZSCORE', KEYS[3], slot) then redis.call('ZADD', KEYS[3], now, slot) end
end
-- Slots of the long gone: look at a few, so that `workers` does not grow without end.
local some = redis.call('HRANDFIELD', KEYS[4], 2, 'WITHVALUES')
for i = 1, #some, 2 do
  local settled_at = tonumber(string.match(some[i + 1], ' (%d+)$') or '0')
  if settled_at + WORKERS_FORGET_S < now / 1000 then redis.call('HDEL', KEYS[4], some[i]) end
end
local answer = {'reclaimed', messages, records}
for _, name in ipairs(names) do answer[#answer + 1] = name end
return answer

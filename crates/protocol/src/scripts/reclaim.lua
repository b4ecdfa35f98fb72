-- reclaim: returns to the queue what nothing else would: the claims of dead workers and drains, past
-- their deadline or absent, and delayed messages whose next attempt is due.
--
-- KEYS
--   1 queue        list of ranges
--   2 claims       hash: slot -> its claim
--   3 deadlines    zset: slot -> until when its claim holds (ms)
--   4 workers      hash: slot -> what it ended last
--   5 idle         zset: idle node -> since when (ms)
--   6 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   7 errors_ids   hash: last, free
--   8 delayed      zset: range of one message -> when its next attempt is due (ms)
-- ARGV
--   1 run_id       the server process; '' believes absence also after a restart
--   2 prefix       of the presence channels
--   3 max_claims   how many claims the call examines
--   4 skip         how many claims with earlier deadlines it passes over
--   5 max_records  after so many records the other claims wait for the next call
--   6 probes       in how many claims it searches for one without a deadline, and how many idle
--                  nodes it examines
--   7 node         the caller, as it is named in `idle`; '' if it does not work
--   8 max_due      how many delayed messages it returns
-- Returns
--   {'reclaimed', messages, records, woken, next_due, node...}  how many messages and records came
--                  back from the dead, how many delayed messages are due, in how many ms the next
--                  one is ('' if there is none), and the dead
-- Invariants
--   A range enters the queue in the step in which it leaves `claims`, with the name of the worker
--   that may have died. A delayed message enters the queue in the step in which it leaves `delayed`,
--   at the front, because it is older than the others.
--   Suspects that are present are acquitted. A claim without a deadline gets one.
--   While messages wait, each call wakes a node: a ring may have been lost with a connection. If no node is
--   idle, that is the caller: it may sleep without being in `idle`, as when `idle` was deleted.
local keys = {queue = KEYS[1], claims = KEYS[2], deadlines = KEYS[3], workers = KEYS[4],
  idle = KEYS[5], errors_held = KEYS[6], errors_ids = KEYS[7]}
local delayed = KEYS[8]
local run_id, prefix = ARGV[1], ARGV[2]
local max_claims, skip = tonumber(ARGV[3]), tonumber(ARGV[4])
local max_records, probes, caller = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local max_due = tonumber(ARGV[8])
-- Claims with the latest deadlines that the call examines, too, and delayed messages with the latest
-- times.
local LATEST = 2
-- Ranges at either end of the queue whose suspects it examines.
local SUSPECT_RANGES = 16
-- Slots of `workers` that it examines, and after what time it forgets one.
local WORKER_PROBES = 2
local FORGET_WORKER_S = 600

-- The earliest deadlines: no one extends the claims of the dead, so they come to the front.
local due = redis.call('ZRANGE', keys.deadlines, skip, skip + max_claims - 1, 'WITHSCORES')
-- And the latest ones: a clock that was ahead may have made them.
if redis.call('ZCARD', keys.deadlines) > skip + max_claims then
  local latest = redis.call('ZRANGE', keys.deadlines, -LATEST, -1, 'WITHSCORES')
  for i = 1, #latest do due[#due + 1] = latest[i] end
end
local waiting = redis.call('LLEN', keys.queue)
must_be(keys.claims, 'hash')
must_be(keys.workers, 'hash')
must_be(keys.idle, 'zset')
must_be(keys.errors_held, 'hash')
must_be(keys.errors_ids, 'hash')
local now = now_ms()
local woken = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now),
  'LIMIT', 0, max_due)
-- A clock that was ahead may have made the latest times.
local latest_delayed = redis.call('ZRANGE', delayed, -LATEST, -1, 'WITHSCORES')
for i = 1, #latest_delayed, 2 do
  local due_at = tonumber(latest_delayed[i + 1])
  if due_at > now and is_past(due_at, now) then woken[#woken + 1] = latest_delayed[i] end
end

local holders, held = {}, {}
for i = 1, #due, 2 do
  local slot, deadline = due[i], tonumber(due[i + 1])
  local value = redis.call('HGET', keys.claims, slot)
  held[slot] = value
  local claim_run_id = value and select(3, parse_claim(value)) or ''
  holders[#holders + 1] = {slot = slot, deadline = deadline, run_id = claim_run_id,
    name = string.match(slot, '^([^:]*)')}
end
local gone = absent(prefix, run_id, holders)

begin_writes(keys.claims)
local answer, named = {'reclaimed', 0, 0, 0, ''}, {}
local lost = {now = now, run_id = run_id}
for _, holder in ipairs(holders) do
  local slot, node = holder.slot, holder.name
  local is_dead = is_past(holder.deadline, now) or gone[node]
  if is_dead and answer[3] < max_records then
    if held[slot] then
      local messages, records = put_back(keys, prefix, slot, held[slot], lost, 'LPUSH')
      held[slot] = nil
      answer[2], answer[3] = answer[2] + messages, answer[3] + records
      if not named[node] then answer[#answer + 1] = node end
      named[node] = true
    else
      redis.call('ZREM', keys.deadlines, slot)
    end
  end
end
-- The earliest ends up at the front.
for i = #woken, 1, -1 do
  redis.call('ZREM', delayed, woken[i])
  redis.call('LPUSH', keys.queue, woken[i])
end
answer[4] = #woken
local next_delayed = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if next_delayed[2] then
  answer[5] = string.format('%.0f', math.max(0, tonumber(next_delayed[2]) - now))
end
waiting = waiting + #woken
if waiting > 0 and not ring(keys.idle, keys.queue, prefix) and caller ~= '' then
  ring_node(keys.queue, prefix, caller)
end

-- Strikes off the suspects of ranges first..last of the queue that are present: one that is back
-- for a moment did not die.
local function acquit(first, last)
  for i, text in ipairs(redis.call('LRANGE', keys.queue, first, last)) do
    local pack, count, range_first, range_last, returns, _, tail = parse_range(text)
    if pack and tail ~= '' then
      local new_tail = format_suspects(absent_suspects(tail, prefix))
      if new_tail ~= tail then
        redis.call('LSET', keys.queue, first + i - 1,
          format_range(pack, count, range_first, range_last, returns, new_tail))
      end
    end
  end
end
-- What came back is at the head, what waits for a verdict at the end.
local length = redis.call('LLEN', keys.queue)
acquit(0, SUSPECT_RANGES - 1)
acquit(math.max(SUSPECT_RANGES, length - SUSPECT_RANGES), length - 1)

-- A claim without a deadline is not the work of a script of ours, and would never end.
for _, slot in ipairs(redis.call('HRANDFIELD', keys.claims, probes)) do
  if not redis.call('ZSCORE', keys.deadlines, slot) then
    redis.call('ZADD', keys.deadlines, now, slot)
  end
end
-- Nodes that died in their sleep leave `idle`, a few at a time.
local sleepers = {}
for _, name in ipairs(redis.call('ZRANDMEMBER', keys.idle, probes)) do
  sleepers[#sleepers + 1] = {name = name}
end
for name in pairs(absent(prefix, '', sleepers)) do redis.call('ZREM', keys.idle, name) end
-- The slots of old nodes leave `workers`, a few at a time.
local ended = redis.call('HRANDFIELD', keys.workers, WORKER_PROBES, 'WITHVALUES')
for i = 1, #ended, 2 do
  local ended_s = tonumber(string.match(ended[i + 1], ' (%d+)$') or '0')
  if ended_s + FORGET_WORKER_S < now / 1000 then redis.call('HDEL', keys.workers, ended[i]) end
end
return answer

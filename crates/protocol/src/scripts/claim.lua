-- claim: moves messages from the head of the queue into the hands of a slot.
--
-- KEYS
--   1 queue       list of ranges
--   2 pack_key    prefix of the packs' keys; the first sequence number of a pack follows
--   3 left        hash: first sequence number of a pack -> how many of its messages have not
--                 ended, if some have
--   4 claims      hash: slot -> its claim
--   5 deadlines   zset: slot -> until when its claim holds (ms)
--   6 workers     hash: slot -> what it ended last
--   7 errors      hash: id -> record
--   8 stats       hash: counters
--   9 idle        zset: idle node -> since when (ms), and how many messages its lane wants
--   10 ledger     list of entries
--   11 fence      hash: born, the name of this data; node, the generator; workers_paused
--   12 errors_ids hash: last, free
--   13 notes      hash: sequence number of a message that was tried before -> first and last reason
-- ARGV
--   1 slot           node:lane
--   2 number         of the claim; grows with each claim of a slot
--   3 run_id         the server process
--   4 want           how many messages the slot wants at most
--   5 ttl_ms         of the claim
--   6 poison_deaths  after so many deaths a message fails
--   7 prefix         of the presence channels
--   8 alone          '1' if the slot's lane holds no other claim; else it gets no message that a
--                    worker may have died with
--   9 sleepers       how many other lanes of the node wait to sleep, if the lane slept before this
--                    call; else ''
--   10 sleeper       the node as it is named in `idle`
-- Returns
--   {'claimed', range, born, pack}  the slot holds the range; the same call returns it again. The
--                   pack is '' if it is large: then the node reads its key. A lane that slept gets
--                   a larger one along if it takes all of it. If the claim takes a part of a large
--                   pack, the node reads that once for all its lanes; `born` tells it from a pack
--                   of data that is lost
--   {'empty'}       no message can be claimed now
--   {'paused'}      an operator has paused the workers. What the slot holds is 'claimed' as ever
--   {'stale'}       this number was committed or given back before
--   {'held', number}  the slot holds the claim with that number
-- Invariants
--   A range leaves the queue and enters `claims` in one step.
--   A slot gets a few messages at most that one worker died with, and one that two died with, and
--   only if its lane holds nothing else: else the next death would blame the wrong message. A
--   message that too many died with goes to the errors store. Before, its suspects have time to
--   come back; the message waits at the end of the queue, and a restart of the server starts that
--   time again.
--   What no script of ours wrote goes from the queue to the errors store, byte for byte.
--   While the workers are paused, no message leaves the queue.
--   A node whose claim finds nothing is idle from this step on, so the next message rings for it. A
--   lane that holds another claim will not sleep, and leaves its node as it is.
--   A lane that slept and gets messages sleeps no more: its node stays idle only if another lane
--   waits to sleep.
--   Constants from bounds.rs: SMALL_PACK_BYTES, WAKING_PACK_BYTES.
local queue, pack_key, left_of, claims, deadlines, workers, errors, stats, idle, ledger,
  fence, errors_ids, notes = unpack(KEYS)
local slot, number_text, run_id = ARGV[1], ARGV[2], ARGV[3]
local want, ttl_ms = math.max(1, tonumber(ARGV[4])), tonumber(ARGV[5])
local poison_deaths, prefix, is_alone = tonumber(ARGV[6]), ARGV[7], ARGV[8] == '1'
local sleepers, sleeper, node = ARGV[9], ARGV[10], string.match(slot, '^([^:]*)')
local number, lane_want = tonumber(number_text), want
-- Messages that a slot gets at once if one worker died with them.
local MAX_SUSPECT_MESSAGES = 16
-- How long suspects have to come back.
local VERDICT_MS = 5000
-- Heads of the queue that one call examines.
local MAX_HEADS = 100

local held = redis.call('HGET', claims, slot)
local ended = redis.call('HGET', workers, slot)
must_be(deadlines, 'zset')
local idle_nodes = redis.call('ZCARD', idle)
local now = now_ms()

-- Whether the node may be idle: the lane holds no other claim, and the node does not generate. The
-- lanes of a generator do not sleep.
local function may_sleep()
  return is_alone and redis.call('HGET', fence, 'node') ~= node
end

-- The lane gets messages. If it slept, the node stays idle only if another lane waits to sleep.
local function wake_up(stays_idle)
  if stays_idle then
    redis.call('ZADD', idle, 'NX', idle_score(now, lane_want), sleeper)
  elseif sleepers == '0' then
    redis.call('ZREM', idle, sleeper)
  end
end

-- The answer if no message can be claimed: 'empty' or 'paused'.
local function nothing(word)
  local sleeps = may_sleep()
  begin_writes(claims)
  if sleeps then redis.call('ZADD', idle, 'NX', idle_score(now, lane_want), sleeper) end
  return {word}
end

local stays_idle = sleepers ~= '' and sleepers ~= '0' and may_sleep()

-- The answer to a claim of first..last. `bytes` is the length of the pack.
local function claimed(range, pack_count, first, last, field, bytes)
  local is_whole = last - first + 1 == pack_count
  if bytes <= SMALL_PACK_BYTES or is_whole and sleepers ~= '' and bytes <= WAKING_PACK_BYTES then
    return {'claimed', range, '', redis.call('GET', pack_key .. field)}
  end
  if is_whole then return {'claimed', range, '', ''} end
  return {'claimed', range, redis.call('HGET', fence, 'born') or '', ''}
end

if held then
  local kind, held_number, _, body = parse_claim(held)
  if kind ~= 'm' or held_number ~= number then
    return {'held', string.format('%.0f', held_number or 0)}
  end
  local _, pack_count, first, last, _, field = parse_range(body)
  local bytes = field and pack_bytes(pack_key .. field) or 0
  local answer = bytes > 0 and claimed(body, pack_count, first, last, field, bytes)
    or {'claimed', body, '', ''}
  begin_writes(claims)
  redis.call('ZADD', deadlines, now + ttl_ms, slot)
  wake_up(stays_idle)
  return answer
end
if ended and number <= tonumber(string.match(ended, '^(%d+) ') or '0') then return {'stale'} end
if redis.call('HGET', fence, 'workers_paused') then return nothing('paused') end

local postponed
for _ = 1, MAX_HEADS do
  local head = redis.call('LINDEX', queue, 0)
  if not head or head == postponed then return nothing('empty') end
  local pack, count, first, last, returns, field, tail = parse_range(head)
  local bytes = pack and pack_bytes(pack_key .. field) or 0
  local since, since_run_id, dead = 0, '', {}
  if bytes > 0 and tail ~= '' then since, since_run_id, dead = absent_suspects(tail, prefix) end

  if bytes > 0 and #dead < poison_deaths then
    if #dead > 0 and not is_alone then return {'empty'} end
    if #dead == 1 then want = math.min(want, MAX_SUSPECT_MESSAGES) end
    if #dead > 1 then want = 1 end
    local taken_last = math.min(last, first + want - 1)
    local new_tail = tail == '' and '' or format_suspects(since, since_run_id, dead)
    local range = taken_last == last and new_tail == tail and head
      or format_range(pack, count, first, taken_last, returns, new_tail)
    local answer = claimed(range, count, first, taken_last, field, bytes)
    -- The first write needs no memory, so workers can drain a full server.
    redis.call('LPOP', queue)
    if taken_last < last then
      redis.call('LPUSH', queue, format_range(pack, count, taken_last + 1, last, returns, new_tail))
    end
    redis.call('HSET', claims, slot, 'm ' .. number_text .. ' ' .. run_id .. ' ' .. range)
    redis.call('ZADD', deadlines, now + ttl_ms, slot)
    wake_up(stays_idle)
    if (idle_nodes > 0 or stays_idle) and redis.call('LLEN', queue) > 0 then
      ring(idle, queue, prefix)
    end
    return answer
  end

  -- No slot may claim this head: it leaves the head of the queue, and the next one follows.
  local keys = {queue = queue, pack = pack_key, left = left_of, errors = errors,
    errors_ids = errors_ids, stats = stats, ledger = ledger, notes = notes}
  if not pack then
    discard_head(keys, slot, now, head, 'not a message of this fleet')
  elseif bytes == 0 then
    discard_head(keys, slot, now, head, 'its text is missing in Redis')
  elseif since_run_id == run_id and is_past(since + VERDICT_MS, now) then
    fail_first(keys, slot, now, {pack = pack, count = count, first = first, last = last,
      returns = returns, field = field, tail = tail}, #dead)
  else
    local waits = since_run_id == run_id and head
      or format_range(pack, count, first, last, returns, format_suspects(now, run_id, dead))
    postponed = postponed or waits
    redis.call('LPOP', queue)
    redis.call('RPUSH', queue, waits)
  end
end
-- There may be messages behind the heads that this call removed: another claim takes them.
local answer = nothing('empty')
ring(idle, queue, prefix)
return answer

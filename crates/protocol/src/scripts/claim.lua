-- claim: takes messages from the head of the queue into a slot's hands.
--
-- KEYS  1 queue  2 packs  3 left  4 claims  5 deadlines  6 workers  7 errors  8 stats  9 bell
--       10 ledger  11 fence  12 errors_ids
-- ARGV  1 slot (node:lane)  2 number of the claim, growing per slot  3 run of the server
--       4 most messages wanted  5 claim ttl in ms  6 deaths after which a message is poison
--       7 prefix of presence channels
-- Returns
--   {'claimed', range, born, pack}   asking again with the same number returns the same. The
--                              pack comes along if it is small or if the claim takes all of it;
--                              else it is '', and the node reads it once for all its lanes.
--                              `born` tells this data from what was here before a loss of all.
--   {'empty'}
--   {'stale'}                  this number was committed or given back before
--   {'held', number}           the slot still holds another claim
-- Keeps: a range leaves the queue and enters `claims` in one step. Messages that a dead
-- worker held are handed out a few at a time, after a second death one by one; one that
-- killed too many goes to errors, and so does whatever lies in the queue that is not ours,
-- with its bytes. A suspect that is present again did not die. Before the last verdict the
-- suspects have time to come back, and after a restart of the server that time begins anew;
-- meanwhile the messages wait at the end of the queue.
local SUSPECT_MESSAGES = 16
local VERDICT_MS = 5000
local SMALL_PACK = 1024
local slot, number, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local want, ttl, poison = math.max(1, tonumber(ARGV[4])), tonumber(ARGV[5]), tonumber(ARGV[6])
local presence = ARGV[7]

local held = redis.call('HGET', KEYS[4], slot)
local settled = redis.call('HGET', KEYS[6], slot)
redis.call('ZCARD', KEYS[5])
local now = now_ms()

-- The answer for a range: with its pack, or with what tells whether the node has it.
local function claimed(range, n, a, b, field, bytes)
  if b - a + 1 == n or bytes <= SMALL_PACK then
    return {'claimed', range, '', redis.call('HGET', KEYS[2], field)}
  end
  return {'claimed', range, redis.call('HGET', KEYS[11], 'born') or '', ''}
end

if held then
  local kind, held_number, _, body = parse_claim(held)
  if kind == 'm' and held_number == number then
    local _, n, a, b, _, field = parse_range(body)
    local bytes = field and redis.call('HSTRLEN', KEYS[2], field) or 0
    local answer = bytes > 0 and claimed(body, n, a, b, field, bytes) or {'claimed', body, '', ''}
    -- First write, and a harmless one that needs no memory.
    redis.call('HDEL', KEYS[4], '')
    redis.call('ZADD', KEYS[5], now + ttl, slot)
    return answer
  end
  return {'held', string.format('%.0f', held_number or 0)}
end
if settled and number <= tonumber(string.match(settled, '^(%d+) ') or '0') then
  return {'stale'}
end

-- One error record, as a worker would write it.
local function keep(last, seq, reason, attempt, text)
  local kept = cmsgpack.pack({seq, now, slot, reason, attempt, text})
  append(KEYS[7], KEYS[12], last, {kept}, 1, 1)
end

-- What is not ours leaves the head of the queue, and its bytes are kept.
local function discard(head, reason)
  local last = last_id(KEYS[7], KEYS[12])
  whole_number(KEYS[8], 'foreign')
  redis.call('LPOP', KEYS[1])
  keep(last, 0, reason, 1, head)
  redis.call('HINCRBY', KEYS[8], 'foreign', 1)
end

-- The first message of the head killed too many workers: it fails without one.
local function fail(range, field, deaths)
  local p, n, a, b, c = range.p, range.n, range.a, range.b, range.c
  local last = last_id(KEYS[7], KEYS[12])
  whole_number(KEYS[8], 'failed')
  local left = (whole_number(KEYS[3], field) or n) - 1
  local audited = redis.call('LLEN', KEYS[10]) > 0
  local pack = redis.call('HGET', KEYS[2], field)
  local fine, body = pcall(cmsgpack.unpack, pack)
  local texts = fine and type(body) == 'table' and body[2]
  local text = type(texts) == 'table' and texts[a - p + 1] or pack

  redis.call('LPOP', KEYS[1])
  if a < b then redis.call('LPUSH', KEYS[1], format_range(p, n, a + 1, b, c, range.tail)) end
  keep(last, a, 'its worker died ' .. string.format('%.0f', deaths) .. ' times', c, text)
  redis.call('HINCRBY', KEYS[8], 'failed', 1)
  if audited then
    local number = string.format('%.0f', a)
    record(KEYS[10], 'c ' .. slot .. ' ' .. number .. ' ' .. number .. ' 1 -',
      redis.call('TIME'))
  end
  if left <= 0 then
    redis.call('HDEL', KEYS[2], field)
    redis.call('HDEL', KEYS[3], field)
  else
    redis.call('HSET', KEYS[3], field, string.format('%.0f', left))
  end
end

local postponed
for _ = 1, 100 do
  local head = redis.call('LINDEX', KEYS[1], 0)
  if not head or head == postponed then return {'empty'} end
  local p, n, a, b, c, field, tail = parse_range(head)
  local bytes = p and redis.call('HSTRLEN', KEYS[2], field)
  local since, since_run, names = 0, '', {}
  if p and tail ~= '' then since, since_run, names = suspects(tail, presence) end
  if not p then
    discard(head, 'not a message of this fleet')
  elseif bytes == 0 then
    discard(head, 'its text is missing in Redis')
  elseif #names >= poison and since_run == run and is_past(since + VERDICT_MS, now) then
    fail({p = p, n = n, a = a, b = b, c = c, tail = tail}, field, #names)
  elseif #names >= poison then
    local waits = since_run == run and head
      or format_range(p, n, a, b, c, format_suspects(now, run, names))
    postponed = postponed or waits
    redis.call('LPOP', KEYS[1])
    redis.call('RPUSH', KEYS[1], waits)
  else
    local most = #names == 0 and want or #names == 1 and math.min(want, SUSPECT_MESSAGES) or 1
    local take = math.min(b, a + most - 1)
    local behind = tail == '' and '' or format_suspects(since, since_run, names)
    local range = take == b and behind == tail and head
      or format_range(p, n, a, take, c, behind)
    local answer = claimed(range, n, a, take, field, bytes)
    local bell = redis.call('LLEN', KEYS[9])
    -- First write: one that needs no memory, so that a full server can still be drained.
    redis.call('LPOP', KEYS[1])
    if take < b then redis.call('LPUSH', KEYS[1], format_range(p, n, take + 1, b, c, behind)) end
    redis.call('HSET', KEYS[4], slot, 'm ' .. ARGV[2] .. ' ' .. run .. ' ' .. range)
    redis.call('ZADD', KEYS[5], now + ttl, slot)
    if bell == 0 and redis.call('LLEN', KEYS[1]) > 0 then redis.call('RPUSH', KEYS[9], '1') end
    return answer
  end
end
-- A long run of foreign or poisonous entries: let others have the server, then ask again.
ring(KEYS[9])
return {'empty'}

-- claim: takes messages from the head of the queue into a slot's hands.
--
-- KEYS  1 queue  2 packs  3 left  4 claims  5 deadlines  6 workers  7 errors  8 stats  9 bell
--       10 ledger  11 errors_ids
-- ARGV  1 slot (node:lane)  2 number of the claim, growing per slot  3 run of the server
--       4 most messages wanted  5 claim ttl in ms  6 crashes after which a message is poison
--       7 first number of the pack that the slot has in memory, or ''  8 its bytes
-- Returns
--   {'claimed', range, pack}   asking again with the same number returns the same; the pack is
--                              '' if it is the one that the slot has
--   {'empty'}
--   {'stale'}                  this number was committed or given back before
--   {'held', number}           the slot still holds another claim
-- Keeps: a range leaves the queue and enters `claims` in one step. Messages that a dead
-- worker held are handed out a few at a time, after a second death one by one; one that
-- killed too many goes to errors, and so does whatever lies in the queue that is not ours,
-- with its bytes.
local SUSPECTS = 16
local slot, number, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local want, ttl, poison = math.max(1, tonumber(ARGV[4])), tonumber(ARGV[5]), tonumber(ARGV[6])

local held = redis.call('HGET', KEYS[4], slot)
local settled = redis.call('HGET', KEYS[6], slot)
redis.call('ZCARD', KEYS[5])
local now = now_ms()
if held then
  local kind, held_number, _, body = parse_claim(held)
  if kind == 'm' and held_number == number then
    local field = select(6, parse_range(body))
    local pack = redis.call('HGET', KEYS[2], field) or ''
    -- First write, and a harmless one that needs no memory.
    redis.call('HDEL', KEYS[4], '')
    redis.call('ZADD', KEYS[5], now + ttl, slot)
    return {'claimed', body, pack}
  end
  return {'held', string.format('%.0f', held_number or 0)}
end
if settled and number <= tonumber(string.match(settled, '^(%d+) ')) then return {'stale'} end

-- One error record, as a worker would write it.
local function keep(last, seq, reason, attempt, text)
  local kept = cmsgpack.pack({seq, now, slot, reason, attempt, text})
  append(KEYS[7], KEYS[11], last, {kept}, 1, 1)
end

-- Ends one message without a worker: it failed.
local function fail(last, p, n, seq, reason, attempt, text)
  keep(last, seq, reason, attempt, text)
  redis.call('HINCRBY', KEYS[8], 'failed', 1)
  if redis.call('LLEN', KEYS[10]) > 0 then
    local number = string.format('%.0f', seq)
    record(KEYS[10], 'c ' .. slot .. ' ' .. number .. ' ' .. number .. ' 1 -',
      redis.call('TIME'))
  end
  local pack = string.format('%.0f', p)
  local left = tonumber(redis.call('HGET', KEYS[3], pack) or n) - 1
  if left == 0 then
    redis.call('HDEL', KEYS[2], pack)
    redis.call('HDEL', KEYS[3], pack)
  else
    redis.call('HSET', KEYS[3], pack, string.format('%.0f', left))
  end
end

-- Takes what cannot be handed out off the head of the queue.
local function discard(head, p, n, a, b, c, pack)
  local last = last_id(KEYS[7], KEYS[11])
  redis.call('HLEN', KEYS[8])
  redis.call('HLEN', KEYS[3])
  redis.call('LLEN', KEYS[10])
  redis.call('LPOP', KEYS[1])
  if not pack then
    keep(last, 0, p and 'its text is missing in Redis' or 'not a message of this fleet', 1, head)
    redis.call('HINCRBY', KEYS[8], 'foreign', 1)
    return
  end
  if a < b then redis.call('LPUSH', KEYS[1], format_range(p, n, a + 1, b, c)) end
  local fine, body = pcall(cmsgpack.unpack, pack)
  local texts = fine and type(body) == 'table' and body[2]
  local text = type(texts) == 'table' and texts[a - p + 1] or pack
  fail(last, p, n, a, 'its worker died ' .. string.format('%.0f', c) .. ' times', c, text)
end

for _ = 1, 100 do
  local head = redis.call('LINDEX', KEYS[1], 0)
  if not head then return {'empty'} end
  local p, n, a, b, c, field = parse_range(head)
  -- A slot that ended a claim here has its pack from here, not from before a loss of all data.
  local has = p and settled and c < poison and field == ARGV[7]
    and redis.call('HSTRLEN', KEYS[2], field) == tonumber(ARGV[8])
  local pack = has and '' or p and redis.call('HGET', KEYS[2], field)
  if pack and c < poison then
    local bell = redis.call('LLEN', KEYS[9])
    local most = c == 0 and want or c == 1 and math.min(want, SUSPECTS) or 1
    local take = math.min(b, a + most - 1)
    local range = take == b and head or format_range(p, n, a, take, c)
    -- First write: one that needs no memory, so that a full server can still be drained.
    redis.call('LPOP', KEYS[1])
    if take < b then redis.call('LPUSH', KEYS[1], format_range(p, n, take + 1, b, c)) end
    redis.call('HSET', KEYS[4], slot, 'm ' .. ARGV[2] .. ' ' .. run .. ' ' .. range)
    redis.call('ZADD', KEYS[5], now + ttl, slot)
    if bell == 0 and redis.call('LLEN', KEYS[1]) > 0 then redis.call('RPUSH', KEYS[9], '1') end
    return {'claimed', range, pack}
  end
  discard(head, p, n, a, b, c, pack)
end
-- A long run of foreign or poisonous entries: let others have the server, then ask again.
ring(KEYS[9])
return {'empty'}

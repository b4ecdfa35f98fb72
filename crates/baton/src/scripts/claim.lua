-- claim: takes messages from the head of the queue into a slot's hands.
--
-- KEYS  1 queue  2 packs  3 left  4 claims  5 deadlines  6 workers  7 errors  8 stats  9 bell
-- ARGV  1 slot (node:lane)  2 number of the claim, growing per slot  3 run of the server
--       4 most messages wanted  5 claim ttl in ms  6 crashes after which a message is poison
-- Returns
--   {'claimed', range, pack}   asking again with the same number returns the same
--   {'empty'}
--   {'stale'}                  this number was committed or given back before
--   {'held', number}           the slot still holds another claim
-- Keeps: a range leaves the queue and enters `claims` in one step. Messages that a dead
-- worker held are handed out one by one; one that killed too many goes to errors, and so
-- does whatever lies in the queue that is not ours, with its bytes.
local slot, number, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local want, ttl, poison = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local held = redis.call('HGET', KEYS[4], slot)
local settled = redis.call('HGET', KEYS[6], slot)
local settled_number = settled and tonumber(string.match(settled, '^(%d+) ')) or 0
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
redis.call('ZCARD', KEYS[5])
redis.call('LLEN', KEYS[7])
redis.call('HLEN', KEYS[8])
redis.call('LLEN', KEYS[9])
local now = now_ms()

-- First write, and a harmless one that needs no memory: a full server can still be drained.
redis.call('HDEL', KEYS[4], '')
if held then
  local kind, held_number, _, body = parse_claim(held)
  if kind == 'm' and held_number == number then
    local p = parse_range(body)
    redis.call('ZADD', KEYS[5], now + ttl, slot)
    return {'claimed', body, redis.call('HGET', KEYS[2], string.format('%.0f', p)) or ''}
  end
  return {'held', string.format('%.0f', held_number or 0)}
end
if number <= settled_number then return {'stale'} end

-- One error record, as a worker would write it.
local function record(seq, reason, attempt, text)
  redis.call('RPUSH', KEYS[7], cmsgpack.pack({seq, now, slot, reason, attempt, text}))
end

-- Ends one message without a worker: it failed.
local function fail(p, n, seq, reason, attempt, text)
  record(seq, reason, attempt, text)
  redis.call('HINCRBY', KEYS[8], 'failed', 1)
  local pack = string.format('%.0f', p)
  local left = tonumber(redis.call('HGET', KEYS[3], pack) or n) - 1
  if left == 0 then
    redis.call('HDEL', KEYS[2], pack)
    redis.call('HDEL', KEYS[3], pack)
  else
    redis.call('HSET', KEYS[3], pack, string.format('%.0f', left))
  end
end

for _ = 1, 100 do
  local head = redis.call('LPOP', KEYS[1])
  if not head then return {'empty'} end
  local p, n, a, b, c = parse_range(head)
  local pack = p and redis.call('HGET', KEYS[2], string.format('%.0f', p))
  if not p or not pack then
    record(0, p and 'its text is missing in Redis' or 'not a message of this fleet', 1, head)
    redis.call('HINCRBY', KEYS[8], 'foreign', 1)
  else
    local take = math.min(b, a + want - 1)
    if c > 0 then take = a end
    if take < b then redis.call('LPUSH', KEYS[1], format_range(p, n, take + 1, b, c)) end
    if c >= poison then
      local fine, body = pcall(cmsgpack.unpack, pack)
      local texts = fine and type(body) == 'table' and body[2]
      local text = type(texts) == 'table' and texts[a - p + 1] or pack
      fail(p, n, a, 'its worker died ' .. string.format('%.0f', c) .. ' times', c, text)
    else
      local range = format_range(p, n, a, take, c)
      redis.call('HSET', KEYS[4], slot, 'm ' .. ARGV[2] .. ' ' .. run .. ' ' .. range)
      redis.call('ZADD', KEYS[5], now + ttl, slot)
      redis.call('HINCRBY', KEYS[8], 'claimed', take - a + 1)
      if redis.call('LLEN', KEYS[1]) > 0 then ring(KEYS[9]) end
      return {'claimed', range, pack}
    end
  end
end
-- A long run of foreign or poisonous entries: let others have the server, then ask again.
ring(KEYS[9])
return {'empty'}

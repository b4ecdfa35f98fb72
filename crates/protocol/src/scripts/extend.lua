-- extend: a slow handler keeps its claim.
--
-- KEYS  1 claims  2 deadlines
-- ARGV  1 claim ttl in ms, then pairs: slot, number of its claim
-- Returns one word per pair: 'held' or 'lost'
-- Keeps: only a claim that is still held gets a later deadline.
local ttl = tonumber(ARGV[1])
redis.call('ZCARD', KEYS[2])
local now = now_ms()
-- First write, and a harmless one that needs no memory.
redis.call('HDEL', KEYS[1], '')
local answers = {}
for i = 2, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[i])
  local number = held and select(2, parse_claim(held))
  if number == tonumber(ARGV[i + 1]) then
    redis.call('ZADD', KEYS[2], now + ttl, ARGV[i])
    answers[#answers + 1] = 'held'
  else
    answers[#answers + 1] = 'lost'
  end
end
return answers

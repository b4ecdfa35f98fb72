-- extend: moves the deadlines of claims whose handlers are still at work.
--
-- KEYS
--   1 claims     hash: slot -> its claim
--   2 deadlines  zset: slot -> until when its claim holds (ms)
-- ARGV
--   1 ttl_ms  of a claim
--   2...      for each claim its slot and its number
-- Returns one word for each claim
--   held  the slot holds it, with the new deadline
--   lost  the slot does not hold it
-- Invariants
--   Only a claim that its slot holds gets a later deadline.
local claims, deadlines = unpack(KEYS)
local ttl_ms = tonumber(ARGV[1])

must_be(deadlines, 'zset')
local now = now_ms()

begin_writes(claims)
local answers = {}
for i = 2, #ARGV, 2 do
  local slot, number = ARGV[i], tonumber(ARGV[i + 1])
  local held = redis.call('HGET', claims, slot)
  local held_number = held and select(2, parse_claim(held))
  if held_number == number then
    redis.call('ZADD', deadlines, now + ttl_ms, slot)
    answers[#answers + 1] = 'held'
  else
    answers[#answers + 1] = 'lost'
  end
end
return answers

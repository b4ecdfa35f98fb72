-- roster: who is here and who generates, in one atomic step. Reads only.
--
-- KEYS  1 generator  2 nodes  3 joined  4 seen
-- ARGV  1 prefix of presence channels
-- Returns {now, generator node, epoch, since, until,
--   then node, about, joined, last seen, present (0|1), ...}
local function scores(key)
  local pairs, of = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #pairs, 2 do of[pairs[i]] = pairs[i + 1] end
  return of
end

local lease = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'since', 'until')
local answer = {now_ms(), lease[1] or '', lease[2] or '0', lease[3] or '0', lease[4] or '0'}
local records = redis.call('HGETALL', KEYS[2])
local joined, seen = scores(KEYS[3]), scores(KEYS[4])
local nodes = {}
for i = 1, #records, 2 do nodes[#nodes + 1] = {name = records[i]} end
local gone = absent(ARGV[1], '', nodes)
for i = 1, #records, 2 do
  local name = records[i]
  answer[#answer + 1] = name
  answer[#answer + 1] = string.match(records[i + 1], '^%x* (.*)$') or ''
  answer[#answer + 1] = joined[name] or '0'
  answer[#answer + 1] = seen[name] or '0'
  answer[#answer + 1] = gone[name] and 0 or 1
end
return answer

-- census: counts where every message is, in one atomic step. Reads only.
--
-- KEYS  1 fence  2 queue  3 claims  4 stats  5 errors
-- ARGV  1 longest queue that is counted range by range
-- Returns {published, done, failed, pending, claimed, errors, foreign, retried,
--   'counted'|'derived', now,
--   then node, messages in its hands, ...}
-- pending and claimed are counted from the ranges themselves, so that the books can be
-- found wrong; only a queue longer than the limit is believed from the counters ('derived').
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
local stats = redis.call('HMGET', KEYS[4], 'done', 'failed', 'foreign', 'retried')
local done, failed = tonumber(stats[1] or '0'), tonumber(stats[2] or '0')
local retried = tonumber(stats[4] or '0')
local errors = redis.call('LLEN', KEYS[5])
local claimed, pending, how = 0, 0, 'counted'
local in_hand = {}
local claims = redis.call('HGETALL', KEYS[3])
for i = 1, #claims, 2 do
  local kind, _, _, body = parse_claim(claims[i + 1])
  if kind == 'm' then
    local p, _, a, b = parse_range(body)
    if p then
      claimed = claimed + b - a + 1
      local node = string.match(claims[i], '^([^:]*)')
      in_hand[node] = (in_hand[node] or 0) + b - a + 1
    end
  elseif kind == 'e' then
    local fine, records = pcall(cmsgpack.unpack, body)
    if fine and type(records) == 'table' then errors = errors + #records end
  end
end
if redis.call('LLEN', KEYS[2]) <= tonumber(ARGV[1]) then
  for _, range in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    local p, _, a, b = parse_range(range)
    if p then pending = pending + b - a + 1 end
  end
else
  how = 'derived'
  pending = last + retried - done - failed - claimed
end
local answer = {last, done, failed, pending, claimed, errors, tonumber(stats[3] or '0'), retried,
  how, now_ms()}
for node, count in pairs(in_hand) do
  answer[#answer + 1] = node
  answer[#answer + 1] = count
end
return answer

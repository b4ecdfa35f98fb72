-- pause: an operator pauses the generator, the workers or both, or lets them go on.
--
-- KEYS
--   1 fence  hash: generator_paused, workers_paused: since when (ms)
--   2 queue  list of ranges
--   3 idle   zset: idle node -> since when (ms)
-- ARGV
--   1 wish       'pause' or 'resume'
--   2 generator  '1' if the wish is about the generator
--   3 workers    '1' if it is about the workers
--   4 presence   prefix of the presence channels
-- Returns
--   {'ok', generator, workers}  since when each of the two was paused before this call (ms); '' if
--                               it was not
-- Invariants
--   The fields outlive every node: a new generator and a new worker are paused, too. A second pause
--   leaves the time of the first.
--   A resumed fleet handles at once what waits: a ring wakes one node, and that rings on.
local fence, queue, idle = unpack(KEYS)
local wish, presence = ARGV[1], ARGV[4]
local fields = {'generator_paused', 'workers_paused'}

local before = redis.call('HMGET', fence, unpack(fields))
local waiting = redis.call('LLEN', queue)
must_be(idle, 'zset')
local now = string.format('%.0f', now_ms())
for i = 1, #fields do
  -- Any other value is the work of another client: it pauses, and its time is unknown.
  before[i] = before[i] and (parse_count(before[i]) and before[i] or now) or ''
end

for i, field in ipairs(fields) do
  if ARGV[i + 1] == '1' then
    -- HDEL needs no memory: a full server can be paused, too.
    redis.call('HDEL', fence, field)
    if wish == 'pause' then
      redis.call('HSET', fence, field, before[i] ~= '' and before[i] or now)
    end
  end
end
if wish == 'resume' and ARGV[3] == '1' and waiting > 0 then ring(idle, queue, presence) end
return {'ok', before[1], before[2]}

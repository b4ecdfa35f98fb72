-- tell: a node says which number it knows in this partition. A server that forgot messages learns so
-- which numbers it gave. In a fleet of one partition the beat says it.
--
-- KEYS
--   1 fence  hash: last, known
-- ARGV
--   1 known  the highest number that Redis acknowledged to this node here; 0 for none
-- Returns
--   {'ok', last}  the partition's last sequence number
-- Invariants
--   `known` is the highest number that a node told, if it is above `last`.
local fence, known = KEYS[1], ARGV[1]

-- Seal and publish refuse a `last` that is no number, and name it.
local numbers = redis.call('HMGET', fence, 'last', 'known')
local last = parse_count(numbers[1] or '0')
if last and tonumber(known) > math.max(last, parse_count(numbers[2] or '0') or 0) then
  redis.call('HSET', fence, 'known', known)
end
return {'ok', last and (numbers[1] or '0') or known}

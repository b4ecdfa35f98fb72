-- void: declares that numbers have no message. Redis had accepted messages under them, forgot these
-- in a failover or a restart, and no node can send them again. The numbers are given to no other
-- message.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish, the last sequence number, generator_paused
--   2 stats   hash: counters
--   3 ledger  list of entries
-- ARGV
--   1 node     the generator
--   2 epoch    of its lease
--   3 first    the first number
--   4 last     the last number
--   5 audited  '1' if the fleet keeps a ledger, else ''
-- Returns
--   {'ok', 0}                the numbers are void
--   {'already', last}        the fleet has these numbers; see publish
--   {'gap', last}            the fleet's last number is lower than first - 1, or within these
--   {'fenced', node, epoch}  another generator has sealed
--   {'paused'}               an operator has paused the generator
-- Invariants
--   As those of publish. Void numbers count in `void`, and nowhere else. The cursor stays.
-- Constants from bounds.rs: MAX_EXACT.
local fence, stats, ledger = unpack(KEYS)
local node, epoch, first, last, audited = unpack(ARGV)

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last', 'generator_paused')
if fenced[1] ~= node or fenced[2] ~= epoch then
  return {'fenced', fenced[1] or '', fenced[2] or '0'}
end
local fleet_last = checked_count(fence, 'last', fenced[3])
if tonumber(last) <= fleet_last then return {'already', fenced[3]} end
if tonumber(first) ~= fleet_last + 1 then return {'gap', fenced[3] or '0'} end
if fenced[4] then return {'paused'} end
local count = tonumber(last) - fleet_last
if (read_count(stats, 'void') or 0) + count >= MAX_EXACT then
  error('BADVALUE ' .. stats .. ' void cannot grow: it would reach 2^53', 0)
end
local time
if audited == '1' then
  must_be(ledger, 'list')
  time = redis.call('TIME')
end

redis.call('HSET', fence, 'last', last)
redis.call('HINCRBY', stats, 'void', string.format('%.0f', count))
if audited == '1' then append_entry(ledger, 'v ' .. first .. ' ' .. last, time) end
return {'ok', 0}

-- publish: one pack of consecutive messages, or nothing.
--
-- KEYS  1 fence  2 queue  3 packs  4 stats  5 bell  6 ledger
-- ARGV  1 node  2 epoch  3 first and 4 last sequence number  5 count
--       6 cursor of the schedule (opaque)  7 most messages that may wait or be in hand  8 the pack
--       9 digest of its texts, for the ledger; '' if none is kept
-- Returns
--   {'ok'}              written
--   {'already', last}   the fleet has these numbers, up to its last. If the caller sent this
--                       very call before and knows that last for its own, it was written then
--   {'gap', last}       the fleet's last number is not first - 1
--   {'fenced', node, epoch}   somebody else sealed
--   {'full', open}      backpressure: so many have not ended
-- Keeps: numbers are gapless; only the node and epoch of the fence publish.
-- The first write asks for memory, so a full server refuses the whole.
local first, last_new, count = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local fence = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'last')
if fence[1] ~= ARGV[1] or fence[2] ~= ARGV[2] then
  return {'fenced', fence[1] or '', fence[2] or '0'}
end
local last = counted(KEYS[1], 'last', fence[3])
if last_new <= last then return {'already', fence[3]} end
if first ~= last + 1 then return {'gap', fence[3] or '0'} end
local stats = redis.call('HMGET', KEYS[4], 'done', 'failed', 'retried')
local open = last + counted(KEYS[4], 'retried', stats[3]) - counted(KEYS[4], 'done', stats[1])
  - counted(KEYS[4], 'failed', stats[2])
if open + count > tonumber(ARGV[7]) then return {'full', string.format('%.0f', open)} end
redis.call('LLEN', KEYS[2])
local silent = redis.call('LLEN', KEYS[5]) == 0
local audited = ARGV[9] ~= ''
local time
if audited then
  redis.call('LLEN', KEYS[6])
  time = redis.call('TIME')
end

redis.call('HSET', KEYS[3], ARGV[3], ARGV[8])
-- A range of the whole pack, put together from texts: formatting numbers is slow.
redis.call('RPUSH', KEYS[2], ARGV[3] .. ' ' .. ARGV[5] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' 0')
redis.call('HSET', KEYS[1], 'last', ARGV[4], 'cursor', ARGV[6])
if silent then redis.call('RPUSH', KEYS[5], '1') end
if audited then
  record(KEYS[6], 'p ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[9], time)
end
return {'ok'}

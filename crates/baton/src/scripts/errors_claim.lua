-- errors_claim: a drain takes error records into its hands, oldest first.
--
-- KEYS  1 errors  2 claims  3 deadlines  4 workers
-- ARGV  1 slot  2 number of the claim  3 run of the server  4 most records  5 most bytes  6 ttl in ms
-- Returns
--   {'claimed', record...}   asking again with the same number returns the same
--   {'empty'}
--   {'stale'}                this number was committed before
-- Keeps: a record leaves `errors` and enters `claims` in one step.
local slot, number, run = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local most, most_bytes, ttl = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local held = redis.call('HGET', KEYS[2], slot)
local settled = redis.call('HGET', KEYS[4], slot)
redis.call('LLEN', KEYS[1])
redis.call('ZCARD', KEYS[3])
local now = now_ms()
if held then
  local kind, held_number, _, body = parse_claim(held)
  if kind == 'e' and held_number == number then
    return {'claimed', unpack(cmsgpack.unpack(body))}
  end
  return {'stale'}
end
if settled and tonumber(string.match(settled, '^(%d+) ')) >= number then return {'stale'} end

local records, bytes = {}, 0
while #records < most and bytes < most_bytes do
  local record = redis.call('LPOP', KEYS[1])
  if not record then break end
  records[#records + 1] = record
  bytes = bytes + #record
end
if #records == 0 then return {'empty'} end
redis.call('HSET', KEYS[2], slot, 'e ' .. ARGV[2] .. ' ' .. run .. ' ' .. cmsgpack.pack(records))
redis.call('ZADD', KEYS[3], now + ttl, slot)
return {'claimed', unpack(records)}

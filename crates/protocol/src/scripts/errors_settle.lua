-- errors_settle: drops failed messages from the errors store, or gives them to the workers again.
--
-- KEYS  1 errors  2 errors_held  3 queue  4 packs  5 left  6 stats  7 fence  8 bell  9 ledger
-- ARGV  1 drop|retry  2.. id of a record, the record, ...
-- Returns one word per record, of the first records at least one: to bound its time, a call
-- settles fewer than it was asked for where the packs of the messages are large
--   dropped   gone for good
--   retried   waits in the queue under its own number, as if no worker had died with it
--   missing   no such record is in the store (any more), or a drain holds it
--   unfit     cannot be retried, for it is no message of this fleet; it stays
-- Keeps: only records that are named, by id and to the byte, are touched: after a loss of data
-- an id may belong to another. A message leaves `errors` and enters the queue in one step:
-- published + retried = done + failed + pending + claimed. Asking again finds the records
-- missing. Nothing is written before the fate of every record is known.
local PACK_BYTES = 524288
local errors, held_by, queue, packs, left_of, stats, fence, bell, ledger = unpack(KEYS)
local retry = ARGV[1] == 'retry'
must_be(errors, 'hash')
must_be(held_by, 'hash')
must_be(queue, 'list')
must_be(packs, 'hash')
must_be(left_of, 'hash')
must_be(bell, 'list')
local retried = whole_number(stats, 'retried') or 0
local last = whole_number(fence, 'last') or 0
local audited = redis.call('LLEN', ledger) > 0
local time = redis.call('TIME')

-- Whether exactly this record is there, free, and not settled by an earlier pair of this call.
local settled = {}
local function is_there(id, bytes)
  return not settled[id] and redis.call('HSTRLEN', errors, id) == #bytes
    and redis.call('HEXISTS', held_by, id) == 0 and redis.call('HGET', errors, id) == bytes
end

-- How many messages a pack has, from its head: [time, [text, ...]]. 0 if it is no pack.
local function count_of(pack)
  if string.byte(pack) ~= 0x92 then return 0 end
  local fine, at = pcall(cmsgpack.unpack_one, pack, 1)
  if not fine or at < 1 then return 0 end
  local head, a, b, c, d = string.byte(pack, at + 1, at + 5)
  if head and head >= 0x90 and head <= 0x9f then return head - 0x90 end
  if head == 0xdc and b then return a * 256 + b end
  if head == 0xdd and d then return ((a * 256 + b) * 256 + c) * 256 + d end
  return 0
end

-- What a record says about a message that can be queued: its number, its text, and, if the pack
-- that it was the first of still has messages that did not end, how many that pack has. Or
-- nothing.
local queued, pack_bytes = {}, 0
local function message(bytes)
  local fine, rest, body = pcall(cmsgpack.unpack_one, bytes)
  if not fine or rest ~= -1 or type(body) ~= 'table' or #body ~= 6 then return nil end
  local seq, text = body[1], body[6]
  if type(seq) ~= 'number' or seq ~= math.floor(seq) or seq < 1 or seq > last
    or type(text) ~= 'string' then return nil end
  local field = string.format('%.0f', seq)
  if queued[field] then return nil end
  local pack, left = redis.call('HGET', packs, field), whole_number(left_of, field)
  if not pack then
    -- Others of its pack have not ended, so a person took their texts away: it would get in the
    -- way of what is left of them.
    if left then return nil end
    return field, text, nil
  end
  pack_bytes = pack_bytes + #pack
  local count = count_of(pack)
  -- As long as no message of its pack has ended, neither has it: this record was made by hand.
  if (left or count) >= count then return nil end
  return field, text, count
end

local function requeue(field, text, count)
  if count then
    redis.call('HINCRBY', left_of, field, 1)
  else
    local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    redis.call('HSET', packs, field, cmsgpack.pack({now, {text}}))
  end
  redis.call('RPUSH', queue, string.format('%s %.0f %s %s 0', field, count or 1, field, field))
  if audited then record(ledger, 'r ' .. field, time) end
end

local answer, fates = {}, {}
for i = 2, #ARGV, 2 do
  if pack_bytes > PACK_BYTES then break end
  local id, bytes = ARGV[i], ARGV[i + 1]
  local there = is_there(id, bytes)
  local field, text, count
  if there and retry then field, text, count = message(bytes) end
  local word = 'missing'
  if there and retry and not field then
    word = 'unfit'
  elseif there then
    word = retry and 'retried' or 'dropped'
    settled[id] = true
    if field then queued[field] = true end
    fates[#fates + 1] = {id = id, field = field, text = text, count = count}
  end
  answer[#answer + 1] = word
end
-- A first write that needs no memory.
for _, fate in ipairs(fates) do redis.call('HDEL', errors, fate.id) end
if not retry or #fates == 0 then return answer end
for _, fate in ipairs(fates) do requeue(fate.field, fate.text, fate.count) end
redis.call('HSET', stats, 'retried', string.format('%.0f', retried + #fates))
ring(bell)
return answer

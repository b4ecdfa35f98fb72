-- errors_settle: drops failed messages from the errors store, or gives them to the workers again.
--
-- KEYS  1 errors  2 queue  3 packs  4 left  5 stats  6 fence  7 bell  8 ledger
-- ARGV  1 drop|retry  2.. index at which a record was seen, the record, ...
-- Returns one word per record
--   dropped   gone for good
--   retried   waits in the queue under its own number, as if no worker had died with it
--   missing   no such record is in the store (any more)
--   unfit     cannot be retried, for it is no message of this fleet; it stays
-- Keeps: only records that are named, to the byte, are touched. A message leaves `errors` and
-- enters the queue in one step: published + retried = done + failed + pending + claimed.
-- Asking again finds the records missing. A record that moved is looked for. Nothing is written
-- before the fate of every record is known.
local retry = ARGV[1] == 'retry'
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('HLEN', KEYS[5])
local last = tonumber(redis.call('HGET', KEYS[6], 'last') or '0')
redis.call('LLEN', KEYS[7])
local audited = redis.call('LLEN', KEYS[8]) > 0
local time = redis.call('TIME')

-- Where a record is that no earlier pair of this call has taken; or nothing.
local taken = {}
local function find(index, bytes)
  if not taken[index] and redis.call('LINDEX', KEYS[1], index) == bytes then return index end
  local rank = 1
  while true do
    local place = redis.call('LPOS', KEYS[1], bytes, 'RANK', rank)
    if not place or not taken[place] then return place end
    rank = rank + 1
  end
end

-- What a record says about a message that can be queued: its number, its text, and, if the pack
-- that it was the first of still has messages that did not end, how many that pack has. Or
-- nothing.
local queued = {}
local function message(bytes)
  local fine, rest, body = pcall(cmsgpack.unpack_one, bytes)
  if not fine or rest ~= -1 or type(body) ~= 'table' or #body ~= 6 then return nil end
  local seq, text = body[1], body[6]
  if type(seq) ~= 'number' or seq ~= math.floor(seq) or seq < 1 or seq > last
    or type(text) ~= 'string' then return nil end
  local field = string.format('%.0f', seq)
  if queued[field] then return nil end
  local pack, left = redis.call('HGET', KEYS[3], field), redis.call('HGET', KEYS[4], field)
  if not pack then
    -- Others of its pack have not ended, so somebody took their texts away: it would get in the
    -- way of what is left of them.
    if left then return nil end
    return field, text, nil
  end
  local readable, content = pcall(cmsgpack.unpack, pack)
  local texts = readable and type(content) == 'table' and content[2]
  local count = type(texts) == 'table' and #texts or 0
  -- As long as no message of its pack has ended, neither has it: this record was made by hand.
  if tonumber(left or count) >= count then return nil end
  return field, text, count
end

local function requeue(field, text, count)
  if count then
    redis.call('HINCRBY', KEYS[4], field, 1)
  else
    local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    redis.call('HSET', KEYS[3], field, cmsgpack.pack({now, {text}}))
  end
  redis.call('RPUSH', KEYS[2],
    string.format('%s %.0f %s %s 0', field, count or 1, field, field))
  redis.call('HINCRBY', KEYS[5], 'retried', 1)
  if audited then record(KEYS[8], 'r ' .. field, time) end
end

local answer, fates = {}, {}
for i = 2, #ARGV, 2 do
  local bytes = ARGV[i + 1]
  local index = find(tonumber(ARGV[i]), bytes)
  local field, text, count
  if index and retry then field, text, count = message(bytes) end
  local word = 'missing'
  if index and retry and not field then
    word = 'unfit'
  elseif index then
    word = retry and 'retried' or 'dropped'
    taken[index] = true
    if field then queued[field] = true end
    fates[#fates + 1] = {index = index, field = field, text = text, count = count}
  end
  answer[#answer + 1] = word
end
if #fates == 0 then return answer end

-- What stands in for a settled record until all are out: bytes that no record has.
local gap = 'settled'
while redis.call('LPOS', KEYS[1], gap) do gap = gap .. '.' end
-- First write: a harmless one that needs no memory, with a command that is needed at the end.
redis.call('LREM', KEYS[1], 0, gap)
for _, fate in ipairs(fates) do
  redis.call('LSET', KEYS[1], fate.index, gap)
  if retry then requeue(fate.field, fate.text, fate.count) end
end
redis.call('LREM', KEYS[1], 0, gap)
if retry then ring(KEYS[7]) end
return answer

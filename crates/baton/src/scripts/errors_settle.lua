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
-- Asking again finds the records missing. A record that moved is looked for.
local TAKEN = 'baton: settled'
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

local function find(index, record)
  if redis.call('LINDEX', KEYS[1], index) == record then return index end
  return redis.call('LPOS', KEYS[1], record)
end

-- What a record says about a message: its number, its text, and, if the pack that it was the
-- first of still has messages that did not end, how many that pack has. Or nothing.
local function message(record)
  local fine, body = pcall(cmsgpack.unpack, record)
  if not fine or type(body) ~= 'table' or #body ~= 6 then return nil end
  local seq, text = body[1], body[6]
  if type(seq) ~= 'number' or seq ~= math.floor(seq) or seq < 1 or seq > last
    or type(text) ~= 'string' then return nil end
  local field = string.format('%.0f', seq)
  local pack = redis.call('HGET', KEYS[3], field)
  if not pack then return field, text, nil end
  local readable, content = pcall(cmsgpack.unpack, pack)
  local texts = readable and type(content) == 'table' and content[2]
  -- Alone in its pack, it has not ended: somebody made this record by hand.
  if type(texts) ~= 'table' or #texts < 2 then return nil end
  return field, text, #texts
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

-- First write: a harmless one that needs no memory, with a command that is needed at the end.
redis.call('LREM', KEYS[7], 0, TAKEN)
local answer, taken, retried = {}, false, false
for i = 2, #ARGV, 2 do
  local index = find(tonumber(ARGV[i]), ARGV[i + 1])
  local field, text, count
  if index and retry then field, text, count = message(ARGV[i + 1]) end
  local word = 'missing'
  if index and retry and not field then
    word = 'unfit'
  elseif index then
    word = retry and 'retried' or 'dropped'
    redis.call('LSET', KEYS[1], index, TAKEN)
    taken = true
    if retry then
      requeue(field, text, count)
      retried = true
    end
  end
  answer[#answer + 1] = word
end
if taken then redis.call('LREM', KEYS[1], 0, TAKEN) end
if retried then ring(KEYS[7]) end
return answer

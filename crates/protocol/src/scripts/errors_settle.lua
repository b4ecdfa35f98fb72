-- errors_settle: drops failed messages, or gives them to the workers again.
--
-- KEYS
--   1 errors       hash: id -> record
--   2 errors_held  hash: id of a record -> slot of the drain that has claimed it
--   3 queue        list of ranges
--   4 pack_key     prefix of the packs' keys; the first sequence number of a pack follows
--   5 left         hash: first sequence number of a pack -> how many of its messages have not
--                  ended, if some have
--   6 stats        hash: counters
--   7 fence        hash: last, the last sequence number
--   8 idle         zset: idle node -> since when (ms)
--   9 ledger       list of entries
--   10 errors_ids  hash: last, free
--   11 record_key  prefix of the keys of long records; an id follows
-- ARGV
--   1 action    'drop' or 'retry'
--   2 presence  prefix of the presence channels
--   3...        for each failed message the id of its record, and the record or its stub
-- Returns one word for each record, from the first one on. It returns fewer words than there are
-- records, but at least one, if the packs of the messages are large: that bounds its time
--   dropped  the record is gone
--   retried  the message waits in the queue under its own number, without suspects
--   missing  the store has no such record, or a drain holds it
--   unfit    the record is no message of this fleet, or a client deleted it; so it stays
-- Invariants
--   The script touches only records that are named by id and to the byte: after a loss of data an
--   id may belong to another record. A second call finds the records of the first one missing.
--   A message leaves the errors store and enters the queue in one step:
--   published + retried = done + failed + pending + claimed + delayed.
--   A record is counted as dropped in the step that deletes it, so it is counted once.
local errors, errors_held, queue, pack_key, left_of, stats, fence, idle, ledger, errors_ids,
  record_key = unpack(KEYS)
local is_retry, presence = ARGV[1] == 'retry', ARGV[2]
-- Bytes of packs and long records after which a call settles no further record.
local MAX_BYTES_READ = 524288

must_be(errors, 'hash')
must_be(errors_held, 'hash')
must_be(queue, 'list')
must_be(left_of, 'hash')
must_be(idle, 'zset')
local retried = read_count(stats, 'retried') or 0
local dropped = read_count(stats, 'dropped') or 0
local last_error = read_count(errors_ids, 'last') or 0
local fleet_last = read_count(fence, 'last') or 0
local is_audited = redis.call('LLEN', ledger) > 0
local time = redis.call('TIME')

-- Whether the store has exactly this record or stub, and no drain holds it.
local function is_free(id, stored)
  return redis.call('HSTRLEN', errors, id) == #stored
    and redis.call('HEXISTS', errors_held, id) == 0 and redis.call('HGET', errors, id) == stored
end

-- How many messages a pack has, read from its head: [time, [text, ...], ...]. 0 if it is none.
local function count_messages(pack)
  if string.byte(pack) ~= 0x93 then return 0 end
  local is_time, texts_at = pcall(cmsgpack.unpack_one, pack, 1)
  if not is_time or texts_at < 1 then return 0 end
  -- A msgpack array has its length in the first byte, or in the two or four bytes behind it.
  local head, byte1, byte2, byte3, byte4 = string.byte(pack, texts_at + 1, texts_at + 5)
  if head and head >= 0x90 and head <= 0x9f then return head - 0x90 end
  if head == 0xdc and byte2 then return byte1 * 256 + byte2 end
  if head == 0xdd and byte4 then return ((byte1 * 256 + byte2) * 256 + byte3) * 256 + byte4 end
  return 0
end

-- Messages that earlier records of this call queue, and the bytes that it has read.
local queued, bytes_read = {}, 0

-- Reads a record as a message that can be queued again. Returns its number as text, its text, its
-- key, and how many messages its pack has (nil if it needs a new pack); or nil if it is no such
-- message.
local function read_message(id, stored)
  local record = stored
  if parse_stub(stored) then
    record = long_record(record_key, id)
    bytes_read = bytes_read + #record
  end
  local is_msgpack, rest, body = pcall(cmsgpack.unpack_one, record)
  if not is_msgpack or rest ~= -1 or type(body) ~= 'table' or #body ~= 8 then return nil end
  local seq, key, text = body[1], body[6], body[8]
  if type(seq) ~= 'number' or seq ~= math.floor(seq) or seq < 1 or seq > fleet_last
    or type(text) ~= 'string' or type(key) ~= 'string' then return nil end
  local field = string.format('%.0f', seq)
  if queued[field] then return nil end
  local its_pack, left = pack_key .. field, read_count(left_of, field)
  if pack_bytes(its_pack) == 0 then
    -- Messages of its old pack have not ended if there is a `left`: their texts were deleted by
    -- hand, and a new pack would take their place.
    if left then return nil end
    return field, text, key, nil
  end
  local pack = redis.call('GET', its_pack)
  bytes_read = bytes_read + #pack
  local count = count_messages(pack)
  -- If no message of its pack has ended, this one has not either: the record was made by hand.
  if (left or count) >= count then return nil end
  return field, text, key, count
end

-- Queues a message in its pack of `count` messages, or in a new one.
local function requeue(field, text, key, count)
  if count then
    redis.call('HINCRBY', left_of, field, 1)
  else
    redis.call('SET', pack_key .. field, cmsgpack.pack({to_ms(time), {text}, {key}}))
  end
  redis.call('RPUSH', queue, string.format('%s %.0f %s %s 0', field, count or 1, field, field))
  if is_audited then append_entry(ledger, 'r ' .. field, time) end
end

-- Moves the hint past ids that have no free record. Else a search would begin among the ids of all
-- the records that were ever dropped.
local function raise_free()
  local free = first_free(errors_ids, last_error)
  local next_free, stop = free, math.min(last_error, free + IDS_AT_ONCE - 1)
  while next_free <= stop and (redis.call('HEXISTS', errors, next_free) == 0
      or redis.call('HEXISTS', errors_held, next_free) == 1) do
    next_free = next_free + 1
  end
  if next_free ~= free then
    redis.call('HSET', errors_ids, 'free', string.format('%.0f', next_free))
  end
end

-- What becomes of each record.
local answer, settled, is_settled = {}, {}, {}
for i = 3, #ARGV, 2 do
  if bytes_read > MAX_BYTES_READ then break end
  local id, stored = ARGV[i], ARGV[i + 1]
  local word, field, text, key, count = 'missing', nil, nil, nil, nil
  if not is_settled[id] and is_free(id, stored) then
    word = is_retry and 'unfit' or 'dropped'
    if is_retry then field, text, key, count = read_message(id, stored) end
    if field then
      word = 'retried'
      queued[field] = true
    end
  end
  if word == 'retried' or word == 'dropped' then
    is_settled[id] = true
    settled[#settled + 1] = {id = id, field = field, text = text, key = key, count = count}
  end
  answer[#answer + 1] = word
end

-- The first write needs no memory, so a full server accepts it.
for _, message in ipairs(settled) do
  redis.call('HDEL', errors, message.id)
  delete_records(record_key, {message.id}, 1, 1)
end
if #settled == 0 then return answer end
raise_free()
if not is_retry then
  redis.call('HSET', stats, 'dropped', string.format('%.0f', dropped + #settled))
  return answer
end
for _, message in ipairs(settled) do
  requeue(message.field, message.text, message.key, message.count)
end
redis.call('HSET', stats, 'retried', string.format('%.0f', retried + #settled))
ring(idle, queue, presence)
return answer

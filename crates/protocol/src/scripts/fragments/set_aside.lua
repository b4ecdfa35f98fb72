-- Fragment: heads of the queue that go to the errors store without a worker. Needs counts,
-- must_be_count, range, errors_append and ledger.
--
-- Parameters of both functions
--   keys  {queue, pack, left, errors, errors_ids, stats, ledger, notes}, by name
--   slot  that found the head; its name is in the record
--   now   in ms

-- Stores a record such as a worker writes, behind the id `last_error`.
local function append_record(keys, last_error, record)
  append_records(keys.errors, keys.errors_ids, last_error, {cmsgpack.pack(record)}, 1, 1)
end

-- Moves a head that is no message of ours to the errors store, byte for byte.
local function discard_head(keys, slot, now, head, reason)
  local last_error = last_id(keys.errors, keys.errors_ids)
  must_be_count(keys.stats, 'foreign', redis.call('HGET', keys.stats, 'foreign'))

  redis.call('LPOP', keys.queue)
  append_record(keys, last_error, {0, now, slot, reason, 1, '', '', head})
  redis.call('HINCRBY', keys.stats, 'foreign', 1)
end

-- The reason of a message's first attempt; '' if it has no note.
local function first_reason(notes, seq_text)
  local is_msgpack, note = pcall(cmsgpack.unpack, redis.call('HGET', notes, seq_text) or '')
  local reason = is_msgpack and type(note) == 'table' and note[1]
  return type(reason) == 'string' and reason or ''
end

-- Ends the first message of the head as failed: too many workers died with it.
--   range   {pack, count, first, last, returns, field, tail}, by name
--   deaths  how many
local function fail_first(keys, slot, now, range, deaths)
  local field, first = range.field, range.first
  local last_error = last_id(keys.errors, keys.errors_ids)
  must_be_count(keys.stats, 'failed', redis.call('HGET', keys.stats, 'failed'))
  local left = (read_count(keys.left, field) or range.count) - 1
  local is_audited = redis.call('LLEN', keys.ledger) > 0
  local pack = redis.call('GET', keys.pack .. field)
  local is_msgpack, body = pcall(cmsgpack.unpack, pack)
  if not is_msgpack or type(body) ~= 'table' then body = {} end
  local texts, named, place = body[2], body[3], first - range.pack + 1
  local text = type(texts) == 'table' and texts[place]
  local seq_text = string.format('%.0f', first)
  local key = type(named) == 'string' and named .. '-' .. seq_text
    or (type(named) == 'table' and named[place])
  if not text or type(key) ~= 'string' then key = '' end
  local tried_reason = first_reason(keys.notes, seq_text)

  redis.call('LPOP', keys.queue)
  if first < range.last then
    redis.call('LPUSH', keys.queue,
      format_range(range.pack, range.count, first + 1, range.last, range.returns, range.tail))
  end
  local reason = 'its worker died ' .. string.format('%.0f', deaths) .. ' times'
  append_record(keys, last_error,
    {first, now, slot, reason, range.returns, key, tried_reason, text or pack})
  redis.call('HDEL', keys.notes, seq_text)
  redis.call('HINCRBY', keys.stats, 'failed', 1)
  if is_audited then
    local entry = 'c ' .. slot .. ' ' .. seq_text .. ' ' .. seq_text .. ' 1 -'
    append_entry(keys.ledger, entry, redis.call('TIME'))
  end
  if left <= 0 then
    redis.call('DEL', keys.pack .. field)
    redis.call('HDEL', keys.left, field)
  else
    redis.call('HSET', keys.left, field, string.format('%.0f', left))
  end
end


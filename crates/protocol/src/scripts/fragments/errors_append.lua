-- Fragment: new records of the errors store, see errors_store. Needs counts.
-- It is not part of errors_store because a script pays for every function in front of it, and
-- commits need no more than this.

-- The id that was given last. Fails if the next id is taken: a record would be overwritten.
local function last_id(errors, errors_ids)
  local last = read_count(errors_ids, 'last')
  local taken = last and redis.call('HEXISTS', errors, last + 1) or redis.call('HLEN', errors)
  if taken > 0 then
    error('BADVALUE ' .. errors_ids .. ' last is behind the ids in ' .. errors
      .. ': set it to the highest of them', 0)
  end
  return last or 0
end

-- Stores records[from..to] under the ids that follow `last`.
local function append_records(errors, errors_ids, last, records, from, to)
  local MAX_AT_ONCE = 500
  for first = from, to, MAX_AT_ONCE do
    local arguments, at = {}, 1
    for i = first, math.min(first + MAX_AT_ONCE - 1, to) do
      last = last + 1
      arguments[at], arguments[at + 1] = last, records[i]
      at = at + 2
    end
    redis.call('HSET', errors, unpack(arguments))
  end
  redis.call('HSET', errors_ids, 'last', string.format('%.0f', last))
end


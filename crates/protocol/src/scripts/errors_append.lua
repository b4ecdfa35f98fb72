-- Shared: new records of the errors store, see errors. Needs checked.
-- Apart from errors, because every commit pays for the functions in front of it.
local APPENDED_AT_ONCE = 500

-- The id given last. Refuses if the next one is taken: a record would be overwritten.
local function last_id(errors, ids)
  local last = whole_number(ids, 'last')
  local behind = last and redis.call('HEXISTS', errors, last + 1) or redis.call('HLEN', errors)
  if behind > 0 then
    error('BADVALUE ' .. ids .. ' last is behind the ids in ' .. errors .. ': set it to the highest of them', 0)
  end
  return last or 0
end

-- Appends records[from..to] behind the id given last.
local function append(errors, ids, last, records, from, to)
  for first = from, to, APPENDED_AT_ONCE do
    local fields, at = {}, 1
    for i = first, math.min(first + APPENDED_AT_ONCE - 1, to) do
      last = last + 1
      fields[at], fields[at + 1] = last, records[i]
      at = at + 2
    end
    redis.call('HSET', errors, unpack(fields))
  end
  redis.call('HSET', ids, 'last', string.format('%.0f', last))
end


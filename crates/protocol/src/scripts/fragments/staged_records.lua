-- Fragment: the long records of a commit. Needs stubs.

-- Finds the staged records among the `count` records in ARGV that begin at `at`. Returns a list of
-- {key = where it is staged, nth = which of the records}; nil if one is not there, or not whole. It
-- must expire until a script takes it, else no worker put it there.
local function staged_records(at, count, staged)
  local found = {}
  for nth = 1, count do
    local length, name = parse_stub(ARGV[at + nth - 1])
    if name then
      local key = staged .. name
      if redis.call('HSTRLEN', key, 'record') ~= length or redis.call('PTTL', key) < 0 then return nil end
      found[#found + 1] = {key = key, nth = nth}
    end
  end
  return found
end

-- Moves staged records to the keys of their ids, which follow `last_id`. The bytes stay where they
-- are in memory.
local function take_records(found, record_key, last_id)
  for _, record in ipairs(found) do
    redis.call('PERSIST', record.key)
    redis.call('RENAME', record.key, record_key .. string.format('%.0f', last_id + record.nth))
  end
end

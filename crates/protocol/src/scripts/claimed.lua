-- Shared: what `claims` holds for one slot: "kind number run body".
-- kind is m (messages; the body is a range) or e (failed messages that a drain holds;
-- the body is the ids of their records, parted by spaces).
local function parse_claim(value)
  local kind, number, run, body = string.match(value, '^([me]) (%d+) (%x*) (.*)$')
  return kind, tonumber(number), run, body
end


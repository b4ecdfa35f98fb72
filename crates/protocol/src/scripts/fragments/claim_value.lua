-- Fragment: what `claims` holds for a slot, "kind number run_id body":
--   kind    m: a worker's claim; its body is a range
--           e: a drain's claim; its body is the ids of records in the errors store
--   number  of the claim
--   run_id  the server process that gave it
-- Constants from bounds.rs: MAX_EXACT.

-- Returns kind, number, run_id and body; nothing if no script of ours wrote the value.
local function parse_claim(value)
  local kind, number, run_id, body = string.match(value, '^([me]) (%d+) (%x*) (.*)$')
  if not kind or tonumber(number) >= MAX_EXACT then return nil end
  return kind, tonumber(number), run_id, body
end


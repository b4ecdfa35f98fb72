-- Shared: ranges. A range is "pack count first last crashes", five decimal numbers:
-- messages first..last of the pack whose own messages are pack..pack+count-1, and how
-- many workers died holding them. The texts stay put in `packs`; only ranges move.

-- Five numbers and the first of them as text, the pack's field in `packs`; or nil when the
-- text is not a range of ours.
local function parse_range(text)
  if #text > 90 then return nil end
  local field, n, a, b, c = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not field then return nil end
  local p = tonumber(field)
  n, a, b, c = tonumber(n), tonumber(a), tonumber(b), tonumber(c)
  if p < 1 or a < p or b < a or b > p + n - 1 or b > 9007199254740991 then return nil end
  return p, n, a, b, c, field
end

local function format_range(p, n, a, b, c)
  return string.format('%.0f %.0f %.0f %.0f %.0f', p, n, a, b, c)
end


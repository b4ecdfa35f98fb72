-- Shared: ranges. A range is "pack count first last returns", five decimal numbers: messages
-- first..last of the pack whose own messages are pack..pack+count-1, and how often they came
-- back from a worker that did not end them. The texts stay put in `packs`; only ranges move.
--
-- Behind them, if workers may have died with these messages: " time run name,name", the nodes
-- that are suspected to be dead, since when, and the run of the server at that time.
local PACK_MESSAGES = 1000

-- Five numbers, the first of them as text (the pack's field in `packs`) and what is behind
-- them; or nil when the text is not a range of ours.
local function parse_range(text)
  if #text > 400 then return nil end
  local field, n, a, b, c, tail = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not field or #text - #tail > 90 then return nil end
  if tail ~= '' and not string.match(tail, '^ %d+ %x* [^ ]+$') then return nil end
  local p = tonumber(field)
  n, a, b, c = tonumber(n), tonumber(a), tonumber(b), tonumber(c)
  if p < 1 or n > PACK_MESSAGES or a < p or b < a or b > p + n - 1 or b > 9007199254740991 then
    return nil
  end
  return p, n, a, b, c, field, tail
end

local function format_range(p, n, a, b, c, tail)
  return string.format('%.0f %.0f %.0f %.0f %.0f', p, n, a, b, c) .. tail
end


-- Fragment: ranges. A range names messages of one pack; it moves between queue and claims while
-- the pack stays in its key. It is a text of five decimal numbers, "pack count first last returns":
--   pack     first message of the pack, and the end of its key
--   count    how many messages the pack has
--   first    first message of the range
--   last     last message of the range
--   returns  how often the range came back from a worker that died, or whose attempt failed
-- A tail follows if workers may have died with these messages, see suspects.
-- Constants from bounds.rs: MAX_EXACT, MAX_PACK_MESSAGES, MAX_RANGE_BYTES, MAX_RANGE_NUMBER_BYTES.

-- Returns the five numbers, the pack's field and the tail ('' if there is none); nil if no script
-- of ours wrote the text.
local function parse_range(text)
  if #text > MAX_RANGE_BYTES then return nil end
  local field, count, first, last, returns, tail =
    string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  if not field or #text - #tail > MAX_RANGE_NUMBER_BYTES then return nil end
  if tail ~= '' and not string.match(tail, '^ %d+ %x* [^ ]+$') then return nil end
  local pack = tonumber(field)
  count, first, last, returns = tonumber(count), tonumber(first), tonumber(last), tonumber(returns)
  if pack < 1 or count > MAX_PACK_MESSAGES or first < pack or last < first
    or last > pack + count - 1 or last >= MAX_EXACT
    or returns >= MAX_EXACT then
    return nil
  end
  return pack, count, first, last, returns, field, tail
end

-- The text of a range.
local function format_range(pack, count, first, last, returns, tail)
  return string.format('%.0f %.0f %.0f %.0f %.0f', pack, count, first, last, returns) .. tail
end


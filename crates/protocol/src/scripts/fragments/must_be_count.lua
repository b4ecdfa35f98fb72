-- Fragment: checks a count that the script adds to or passes on unread. Needs counts.

-- Fails as checked_count does if the value of a field is not a count.
local function must_be_count(key, field, value)
  checked_count(key, field, value)
end


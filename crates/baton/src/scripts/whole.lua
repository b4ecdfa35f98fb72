-- whole(key, field, text): the whole number that a field of a hash holds; 0 if there is none.
-- Anything else, and what a double cannot hold, is an error that names key and field.
local function whole(key, field, text)
  if not text then return 0 end
  local number = string.match(text, '^%d+$') and tonumber(text)
  if number and number < 9007199254740992 then return number end
  return nil, redis.error_reply('ERR the field ' .. field .. ' of ' .. key .. ' is no whole number: '
    .. string.sub(text, 1, 40))
end


-- Shared: the ledger, a list of what was published and what ended, each with Redis's time:
-- "p epoch first last digest seconds microseconds"
-- "c slot first last failed digest seconds microseconds"
-- It is kept for an audit, and only by fleets that ask for one.
local function record(ledger, entry, time)
  redis.call('RPUSH', ledger, entry .. ' ' .. time[1] .. ' ' .. time[2])
end


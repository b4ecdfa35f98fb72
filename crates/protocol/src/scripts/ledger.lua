-- Shared: the ledger, a list of what was published, what ended and what was retried, each with Redis's time:
-- "p epoch first last digest seconds microseconds"
-- "c slot first last failed digest seconds microseconds"
-- "r message seconds microseconds"
-- It is kept for an audit, and only by fleets that ask for one.
local function record(ledger, entry, time)
  redis.call('RPUSH', ledger, entry .. ' ' .. time[1] .. ' ' .. time[2])
end


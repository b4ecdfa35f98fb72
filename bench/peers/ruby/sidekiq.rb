# Sidekiq, the free one, as Debian packages it. To enqueue: push_bulk, 1,000 jobs per call, as
# its comment advises.
# To count: its default of 10 threads (5 and 25 were no faster), no line logged per job, and
# none for the calls that its Redis client finds old.
# To hold: the defaults of its command line. Its fetch is a plain BRPOP, so what a killed
# process held is gone; the reliable fetch is a paid one.

require "securerandom"
require "sidekiq"
require_relative "handle"

BULK = 1_000

def enqueue(count, size)
  (0...count).each_slice(BULK) do |some|
    args = some.map { [SecureRandom.alphanumeric(size)] }
    Sidekiq::Client.push_bulk("class" => Handle, "args" => args)
  end
end

def tell
  told = 0
  loop do
    sleep 0.02
    next if told == Handle.count

    told = Handle.count
    puts "done #{told}"
  end
end

def work(holds)
  require "sidekiq/cli"
  Handle.holds = holds
  Sidekiq.configure_server { |config| config.on(:startup) { puts "ready" } }
  Sidekiq.logger = Logger.new($stderr, level: Logger::WARN)
  Thread.new { tell } unless holds
  cli = Sidekiq::CLI.instance
  arguments = ["--require", File.join(__dir__, "handle.rb"), "--queue", "peer"]
  cli.parse(arguments)
  cli.run
end

mode, url, *rest = ARGV
$stdout.sync = true
Redis.silence_deprecations = true
Redis.sadd_returns_boolean = false
ENV["REDIS_URL"] = url

case [mode, *rest]
in ["enqueue", count, size] then enqueue(count.to_i, size.to_i)
in ["work", "count" | "hold" => what] then work(what == "hold")
else abort "usage: enqueue URL COUNT SIZE | work URL count|hold"
end

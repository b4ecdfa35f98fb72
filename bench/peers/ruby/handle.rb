# The handler: counts, or begins and does not end within any measurement.
class Handle
  include Sidekiq::Worker
  sidekiq_options queue: "peer"

  @count = 0
  @lock = Mutex.new
  @holds = false

  class << self
    attr_reader :count
    attr_accessor :holds

    def tick
      @lock.synchronize { @count += 1 }
    end
  end

  def perform(_text)
    if Handle.holds
      puts "begun"
      sleep 600
    end
    Handle.tick
  end
end

"""dramatiq. To enqueue: actor.send (there is no bulk call).
To count: one process with the default 8 threads; the middleware that a no-op handler does not
need (age and time limits, retries, callbacks) is left out, which nearly doubles its rate.
To hold: the command line's defaults, so a process per core with 8 threads each, and dead
workers found by heartbeats that are older than 60 s.
"""

import os
import sys
import threading

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.cli import main as run_command_line
from dramatiq.cli import make_argument_parser
from dramatiq.middleware import Middleware

import report


class Ready(Middleware):
    """Tells when a worker listens."""

    def after_worker_boot(self, broker, worker):
        report.say("ready")


def make(url, middleware=None):
    broker = RedisBroker(url=url, middleware=middleware)
    broker.add_middleware(Ready())
    dramatiq.set_broker(broker)
    dramatiq.actor(report.handle, actor_name="handle")
    return broker


def enqueue(url, count, size):
    actor = make(url, middleware=[]).get_actor("handle")
    for _ in range(count):
        actor.send(report.text(size))


def work(url, counts):
    if counts:
        dramatiq.Worker(make(url, middleware=[])).start()
        threading.Event().wait()
    else:
        # It imports this very file again, in processes of its own.
        sys.exit(run_command_line(make_argument_parser().parse_args(["dramatiq_peer"])))


if __name__ == "__main__":
    report.main(enqueue, work)
else:
    make(os.environ[report.URL])

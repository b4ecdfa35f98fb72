"""RQ. To enqueue: enqueue_many, 1,000 jobs per call (one pipeline each).
To count: SimpleWorker, which runs the handler in the worker itself instead of forking for
every job; JSON instead of pickle; results are not kept (result_ttl=0).
To hold: the default Worker, which forks. What a killed worker held is looked for every 10
minutes, and then it is marked as failed: jobs run again only if a user asks for retries.
"""

from redis import Redis
from rq import Queue, SimpleWorker, Worker
from rq.serializers import JSONSerializer

import report

NAME = "peer"
BULK = 1000


def enqueue(url, count, size):
    queue = Queue(NAME, connection=Redis.from_url(url), serializer=JSONSerializer)
    for start in range(0, count, BULK):
        jobs = [
            Queue.prepare_data("report.handle", (report.text(size),), result_ttl=0)
            for _ in range(min(BULK, count - start))
        ]
        queue.enqueue_many(jobs)


class Ready:
    """Tells when a worker listens."""

    def bootstrap(self, *args, **kwargs):
        super().bootstrap(*args, **kwargs)
        report.say("ready")


class Simple(Ready, SimpleWorker):
    """Handles in its own process."""


class Forking(Ready, Worker):
    """Forks a process for every job."""


def work(url, counts):
    kind = Simple if counts else Forking
    worker = kind(
        [NAME],
        connection=Redis.from_url(url),
        serializer=JSONSerializer,
        log_job_description=not counts,
    )
    worker.work(logging_level="WARNING")


report.main(enqueue, work)

"""Celery. To enqueue: apply_async with one producer kept open (there is no bulk call).
To count: the solo pool, because a no-op handler gains nothing from a second process and pays
for the way there; no results, no rate limits, no gossip, mingle or heartbeat; prefetch 100.
To hold: the defaults, so the prefork pool and early acknowledgement. Reliable redelivery
(acks_late with a visibility timeout of 1 h) is off unless a user turns it on.
"""

from celery import Celery, signals

import report


def make(url):
    app = Celery("peer", broker=url)
    app.task(name="handle")(report.handle)
    return app


def enqueue(url, count, size):
    app = make(url)
    app.conf.task_ignore_result = True
    task = app.tasks["handle"]
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            task.apply_async((report.text(size),), producer=producer)


def work(url, counts):
    app = make(url)
    signals.worker_ready.connect(lambda **_: report.say("ready"), weak=False)
    arguments = ["--quiet", "worker", "--loglevel=WARNING"]
    if counts:
        app.conf.update(
            task_ignore_result=True,
            worker_disable_rate_limits=True,
            worker_prefetch_multiplier=100,
        )
        arguments += ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main(arguments)


report.main(enqueue, work)

"""taskiq with taskiq-redis. RedisStreamBroker in every mode: it is the one with
acknowledgements, and no slower here than ListQueueBroker, which loses what a worker holds.
To enqueue: kiq from 20 coroutines (there is no bulk call).
To count: one process through run_receiver_task, 100 at a time, 100 more fetched ahead, no
parameter validation, no result backend, uvloop.
To hold: the command line's defaults, so two processes and an idle_timeout of 10 minutes.
"""

import asyncio
import os

import uvloop
from taskiq import TaskiqEvents
from taskiq.api import run_receiver_task
from taskiq.cli.worker.args import WorkerArgs
from taskiq.cli.worker.run import run_worker
from taskiq_redis import RedisStreamBroker

import report

PRODUCERS = 20


async def ready(_state):
    report.say("ready")


def make(url):
    broker = RedisStreamBroker(url)
    broker.register_task(report.handle_async, task_name="handle")
    broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, ready)
    return broker


async def fill(url, count, size):
    broker = make(url)
    await broker.startup()
    task = broker.find_task("handle")

    async def some(count):
        for _ in range(count):
            await task.kiq(report.text(size))

    await asyncio.gather(*map(some, report.shares(count, PRODUCERS)))
    await broker.shutdown()


def enqueue(url, count, size):
    uvloop.run(fill(url, count, size))


async def receive(url):
    broker = make(url)
    broker.is_worker_process = True
    await broker.startup()
    await run_receiver_task(broker, validate_params=False, max_async_tasks=100, max_prefetch=100)


def work(url, counts):
    if counts:
        uvloop.run(receive(url))
    else:
        # It imports this very file again, in processes of its own.
        run_worker(WorkerArgs.from_cli(["taskiq_peer:broker"]))


if __name__ == "__main__":
    report.main(enqueue, work)
else:
    broker = make(os.environ[report.URL])

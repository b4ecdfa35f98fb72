"""arq. To enqueue: enqueue_job from 20 coroutines (there is no bulk call).
To count: 100 jobs at a time, a poll every 100 ms instead of 500, results neither kept nor
logged, uvloop.
To hold: the defaults, so 10 jobs at a time, and a lost job is free again when its mark runs
out: job_timeout (300 s) + 10 s.
"""

import asyncio

import uvloop
from arq import Worker, create_pool
from arq.connections import RedisSettings

import report

PRODUCERS = 20
TUNED = {"max_jobs": 100, "poll_delay": 0.1, "keep_result": 0, "log_results": False}


async def handle(_context, text):
    await report.handle_async(text)


async def ready(_context):
    report.say("ready")


async def fill(url, count, size):
    pool = await create_pool(RedisSettings.from_dsn(url))

    async def some(count):
        for _ in range(count):
            await pool.enqueue_job("handle", report.text(size))

    await asyncio.gather(*map(some, report.shares(count, PRODUCERS)))


def enqueue(url, count, size):
    uvloop.run(fill(url, count, size))


def work(url, counts):
    uvloop.install()
    Worker(
        functions=[handle],
        redis_settings=RedisSettings.from_dsn(url),
        on_startup=ready,
        **(TUNED if counts else {}),
    ).run()


report.main(enqueue, work)

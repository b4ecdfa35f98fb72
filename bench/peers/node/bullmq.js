// BullMQ with ioredis, its usual driver. To enqueue: addBulk, 200 jobs per call (5,000 and 1,000
// were no faster).
// To count: concurrency 300 (20, 100 and 1,000 were slower), and finished jobs are removed.
// To hold: the defaults, so a lock of 30 s and a look for stalled jobs every 30 s.
'use strict';

const { Queue, Worker } = require('bullmq');
const { text, counter, hold, main } = require('./report');

const NAME = 'peer';
const BULK = 200;
const CONCURRENCY = 300;

async function enqueue(url, count, size) {
  const queue = new Queue(NAME, { connection: { url } });
  await queue.waitUntilReady();
  for (let left = count; left > 0; left -= BULK) {
    const jobs = Array.from({ length: Math.min(BULK, left) }, () => ({
      name: 'noop',
      data: { text: text(size) },
    }));
    await queue.addBulk(jobs);
  }
  await queue.close();
}

async function work(url, counts) {
  const connection = { url, maxRetriesPerRequest: null };
  const options = { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 } };
  const tick = counts && counter();
  const worker = counts
    ? new Worker(NAME, async () => tick(), options)
    : new Worker(NAME, hold, { connection });
  worker.on('error', (error) => process.stderr.write(`${error}\n`));
  await worker.waitUntilReady();
}

main({ enqueue, work });

// bee-queue. To enqueue: saveAll, 1,000 jobs per call.
// To count: concurrency 300 (20, 100 and 1,000 were slower), the settings that its README names
// for workers that need no events, and finished jobs are removed.
// To hold: the defaults (stallInterval 5 s), and the check for stalled jobs every 5 s, which its
// README leaves to the user to turn on: without it nothing is ever recovered.
'use strict';

const Queue = require('bee-queue');
const { text, counter, hold, main } = require('./report');

const NAME = 'peer';
const BULK = 1000;
const CONCURRENCY = 300;

async function enqueue(url, count, size) {
  const queue = new Queue(NAME, { redis: url, isWorker: false, getEvents: false, storeJobs: false });
  for (let left = count; left > 0; left -= BULK) {
    const jobs = Array.from({ length: Math.min(BULK, left) }, () =>
      queue.createJob({ text: text(size) }));
    const errors = await queue.saveAll(jobs);
    if (errors.size > 0) throw errors.values().next().value;
  }
  await queue.close();
}

async function work(url, counts) {
  const tuned = { getEvents: false, sendEvents: false, storeJobs: false, removeOnSuccess: true };
  const queue = new Queue(NAME, { redis: url, ...(counts ? tuned : {}) });
  if (counts) {
    const tick = counter();
    queue.process(CONCURRENCY, async () => tick());
  } else {
    queue.process(hold);
    queue.checkStalledJobs(5000, () => {});
  }
  await queue.ready();
}

main({ enqueue, work });

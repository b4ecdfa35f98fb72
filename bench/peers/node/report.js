// What every adapter prints, and the text that every message carries.
'use strict';

const { randomBytes } = require('node:crypto');

/** A random ASCII text of `size` bytes. */
exports.text = (size) => randomBytes(size).toString('base64').slice(0, size);

/** Prints one line. */
exports.say = (line) => process.stdout.write(`${line}\n`);

/** Returns a function that counts; the count is printed every 20 ms if it has changed. */
exports.counter = () => {
  let count = 0;
  let told = 0;
  setInterval(() => {
    if (count !== told) {
      told = count;
      exports.say(`done ${told}`);
    }
  }, 20);
  return () => {
    count += 1;
  };
};

/** A handler that begins and does not end within any measurement. */
exports.hold = () => {
  exports.say('begun');
  return new Promise((resolve) => setTimeout(resolve, 600_000));
};

/** Runs the part that the command line names: MODE URL and the rest, see ../README.md. */
exports.main = async ({ enqueue, work }) => {
  const [mode, url, first, second] = process.argv.slice(2);
  if (mode === 'enqueue') {
    await enqueue(url, Number(first), Number(second));
    process.exit(0);
  }
  if (mode !== 'work' || !['count', 'hold'].includes(first)) {
    throw new Error('usage: enqueue URL COUNT SIZE | work URL count|hold');
  }
  await work(url, first === 'count');
  exports.say('ready');
};

// Reports one file of `tap`, from within its process: what the library itself writes to standard output.
//
// Text that tests print takes other ways to the same stream (`console.log`, `process.stdout.write`, the descriptor, a
// child process), none of which has the library as its immediate caller; it is passed on and not read.
'use strict';

const { take, text } = require('./curate_channel.cjs');

const channel = take();
const LIBRARY = /\/node_modules\/(?:tap|libtap|minipass|tap-parser|@tapjs\/[^/]+|treport)\//;

function callerIsLibrary() {
  const { stackTraceLimit, prepareStackTrace } = Error;
  Error.stackTraceLimit = 1;
  Error.prepareStackTrace = (_, sites) => (sites[0] ? sites[0].getFileName() : '');
  const holder = {};
  Error.captureStackTrace(holder, write);
  const file = holder.stack;
  Error.stackTraceLimit = stackTraceLimit;
  Error.prepareStackTrace = prepareStackTrace;
  return typeof file === 'string' && LIBRARY.test(file);
}

let passOn;

function write(chunk, ...rest) {
  if (!callerIsLibrary()) return passOn(chunk, ...rest);
  const isText = typeof chunk === 'string';
  channel.send({ event: 'tap', text: isText ? chunk : Buffer.from(chunk).toString('utf8') });
  const callback = rest.find((argument) => typeof argument === 'function');
  if (callback) process.nextTick(callback);
  return true;
}

if (channel !== null) {
  passOn = process.stdout.write.bind(process.stdout);
  process.stdout.write = write;
  process.on('exit', (code) => channel.send({ event: 'done', code: text(code) }));
}

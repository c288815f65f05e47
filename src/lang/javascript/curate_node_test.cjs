// Reports one file of `node:test`, from within its process.
'use strict';

const { take, failure, naming } = require('./curate_channel.cjs');

const channel = take();

function outcomeOf(type, data) {
  if (data.skip !== undefined && data.skip !== false) return 'skipped';
  const isTodo = data.todo !== undefined && data.todo !== false;
  if (type === 'test:pass') return isTodo ? 'skipped' : 'passed';
  if (isTodo) return 'xfailed';
  const error = data.details && data.details.error;
  return error && error.failureType === 'testTimeoutFailure' ? 'timed_out' : 'failed';
}

async function* report(source) {
  const { name } = naming(channel.root);
  const file = channel.root + '/' + channel.files[0];
  const stack = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      stack.length = data.nesting;
      stack.push(data.name);
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const { details = {}, nesting } = data;
    if (details.type === 'suite') continue;
    const id = name(file, [...stack.slice(0, nesting), data.name]);
    const outer = details.error;
    const error = outer && outer.cause !== undefined ? outer.cause : outer;
    const when = outer && outer.failureType === 'hookFailed' ? 'setup' : 'call';
    channel.send({ event: 'begin', id });
    channel.send({ event: 'result', id, when, outcome: outcomeOf(type, data), ...(error === undefined ? {} : failure(error)) });
    channel.send({ event: 'end', id, ms: Math.round(details.duration_ms || 0) });
  }
  channel.send({ event: 'done' });
}

if (channel !== null) module.exports = report;

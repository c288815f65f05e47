// Reports one file of ava 3 and later, from its main process: the messages that its workers send there.
'use strict';

const { EventEmitter } = require('events');

const { take, naming, text } = require('./curate_channel.cjs');

const channel = take();
const { apply } = Reflect;

function failureOf(error) {
  if (!error) return {};
  const values = (error.values || error.formattedDetails || []).map((value) => value.label + '\n' + value.formatted);
  const source = error.originalError || error;
  const parts = [error.message || source.message || error.summary || '', error.formattedError || '', ...values];
  const message = text(parts.filter(Boolean).join('\n')).replace(/\u001b\[[0-9;]*m/g, '');
  return { exception: text(error.name || source.name || 'Error'), message, stack: text(error.stack || source.stack || '') };
}

function listen() {
  const file = channel.files[0];
  const { name } = naming('/');
  const ids = new Map();
  const idOf = (title) => {
    if (!ids.has(title)) ids.set(title, name(file, [title]));
    return ids.get(title);
  };
  const settle = (id, outcome, more, ms) => {
    channel.send({ event: 'begin', id });
    channel.send({ event: 'result', id, when: 'call', outcome, ...more });
    channel.send({ event: 'end', id, ms: Math.round(ms || 0) });
  };
  const take = (message) => {
    switch (message.type) {
      case 'selected-test':
        channel.send({ event: 'collected', ids: [idOf(message.title)] });
        if (message.skip || message.todo) settle(idOf(message.title), 'skipped', {}, 0);
        break;
      case 'test-passed':
        settle(idOf(message.title), message.knownFailing ? 'xfailed' : 'passed', {}, message.duration);
        break;
      case 'test-failed':
        settle(idOf(message.title), 'failed', failureOf(message.err), message.duration);
        break;
      case 'hook-failed':
        channel.send({ event: 'hook', title: text(message.title), ...failureOf(message.err) });
        break;
      case 'uncaught-exception':
      case 'unhandled-rejection':
        channel.send({ event: 'broken', file, ...failureOf(message.err) });
        break;
    }
  };
  const { emit } = EventEmitter.prototype;
  EventEmitter.prototype.emit = function (type, ...rest) {
    if (type === 'message' && rest[0] && typeof rest[0].ava === 'object' && rest[0].ava !== null) take(rest[0].ava);
    return apply(emit, this, [type, ...rest]);
  };
  process.on('exit', () => channel.send({ event: 'done' }));
}

if (channel !== null) listen();

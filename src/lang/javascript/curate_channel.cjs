// The child's end of the result channel; loaded with `node --require` before anything of the repository.
//
// Events go to a pipe of our own, each sealed with a digest under a key that only this process and the driver above it
// know. The file that brought the key is gone before repository code starts. Whatever that code could replace later is
// taken here. In processes and threads that tests start, and in a second copy of this module, it does nothing.
'use strict';

const fs = require('fs');
const crypto = require('crypto');

const { createHmac } = crypto;
const { writeSync } = fs;
const { stringify } = JSON;
const { apply } = Reflect;
const { create, keys, setPrototypeOf } = Object;
const { isArray } = Array;
const hmac = Object.getPrototypeOf(createHmac('sha256', 'key'));
const { update, digest } = hmac;
const { byteLength, from } = Buffer;

const MAX_TEXT = 8000;

// Returns a copy that no method put on a shared prototype can change on its way to JSON.
function bare(value) {
  if (typeof value === 'string') return value;
  if (value === null || typeof value !== 'object') return value;
  const copy = isArray(value) ? setPrototypeOf([], null) : create(null);
  if (isArray(value)) {
    for (let at = 0; at < value.length; at++) copy[at] = bare(value[at]);
  } else {
    for (const key of keys(value)) copy[key] = bare(value[key]);
  }
  return copy;
}

function writer(descriptor, key) {
  let number = 0;
  return function send(event) {
    number += 1;
    const body = stringify(bare(event));
    const seal = createHmac('sha256', key);
    apply(update, seal, [number + ' ' + body]);
    const line = from(number + ' ' + apply(digest, seal, ['hex']) + ' ' + body + '\n');
    let sent = 0;
    while (sent < byteLength(line)) {
      try {
        sent += writeSync(descriptor, line, sent);
      } catch (error) {
        if (error.code !== 'EAGAIN') return;
      }
    }
  };
}

// Returns text of a value that may be anything, shortened.
function text(value) {
  try {
    const whole = typeof value === 'string' ? value : String(value);
    return whole.length > MAX_TEXT ? whole.slice(0, MAX_TEXT) : whole;
  } catch (error) {
    return '<unprintable>';
  }
}

// Returns what is known of a thrown value: the exception's class, its message and its stack.
function failure(error) {
  if (error === null || typeof error !== 'object') return { exception: null, message: text(error), stack: '' };
  try {
    const name = error.name || (error.constructor && error.constructor.name);
    const message = error.message === undefined ? text(error) : text(error.message);
    return { exception: name ? text(name) : null, message, stack: text(error.stack || '') };
  } catch (broken) {
    return { exception: null, message: '<unprintable>', stack: '' };
  }
}

// Numbers the tests of a file that share a name: the second is `name#2`.
function naming(root) {
  const seen = new Map();
  const prefix = root.endsWith('/') ? root : root + '/';
  const relative = (file) => (file && file.startsWith(prefix) ? file.slice(prefix.length) : text(file || ''));
  return {
    relative,
    name(file, path) {
      const id = relative(file) + '::' + path.map((part) => text(part).trim()).join(' > ');
      const count = (seen.get(id) || 0) + 1;
      seen.set(id, count);
      return count === 1 ? id : id + '#' + count;
    },
  };
}

// Returns a function that puts an array into a seeded order, in place.
function shuffler(seed) {
  let state = Number(BigInt(seed) % 4294967296n);
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return (items) => {
    for (let at = items.length - 1; at > 0; at--) {
      const other = Math.floor(next() * (at + 1));
      [items[at], items[other]] = [items[other], items[at]];
    }
  };
}

let handed = null;

function begin() {
  const place = process.env.CURATE_RUN;
  delete process.env.CURATE_RUN;
  if (!place) return;
  const order = JSON.parse(fs.readFileSync(place, 'utf8'));
  fs.unlinkSync(place);
  const { key, descriptor, ...settings } = order;
  handed = { ...settings, send: writer(descriptor, key) };
}

begin();

module.exports = {
  // Hands the channel to the first who asks: a module of ours that is loaded below.
  take() {
    const channel = handed;
    handed = null;
    return channel;
  },
  failure,
  naming,
  shuffler,
  text,
};

if (handed !== null) require('./' + handed.module);

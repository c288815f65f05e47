// Reports a run of mocha 5 and later, from within its process.
'use strict';

const { take, failure, naming, shuffler } = require('./curate_channel.cjs');

const channel = take();

// Tests below a suite, in the order in which they run.
function below(suite) {
  return suite.tests.concat(...suite.suites.map(below));
}

function pathOf(test) {
  const path = [];
  for (let at = test; at && at.title !== undefined && !at.root; at = at.parent) path.unshift(at.title);
  return path;
}

function Reporter(runner) {
  const { relative, name } = naming(channel.root);
  const ids = new Map();
  const settled = new Set();
  const wanted = channel.wanted && new Set(channel.wanted);
  const files = channel.files && new Set(channel.files);

  const fileOf = (test) => {
    for (let at = test; at; at = at.parent) if (at.file) return at.file;
    return '';
  };
  for (const test of below(runner.suite)) ids.set(test, name(fileOf(test), pathOf(test)));

  const isChosen = (test) => {
    if (files && !files.has(relative(fileOf(test)))) return false;
    if (!wanted) return true;
    const id = ids.get(test);
    return wanted.has(id) || (channel.loose && channel.wanted.some((item) => id.startsWith(item + ' > ') || id.startsWith(item + '::')));
  };
  const prune = (suite) => {
    suite.tests = suite.tests.filter(isChosen);
    suite.suites.forEach(prune);
  };
  prune(runner.suite);
  if (channel.order_seed !== null) {
    const shuffle = shuffler(channel.order_seed);
    const mix = (suite) => {
      shuffle(suite.tests);
      shuffle(suite.suites);
      suite.suites.forEach(mix);
    };
    mix(runner.suite);
  }
  channel.send({ event: 'collected', ids: below(runner.suite).map((test) => ids.get(test)), files: channel.files });

  const idOf = (test) => {
    // Made while the tests ran, or a copy for another try.
    if (!ids.has(test)) {
      const original = [...ids.keys()].find((known) => known.parent === test.parent && known.title === test.title);
      ids.set(test, original ? ids.get(original) : name(fileOf(test), pathOf(test)));
    }
    return ids.get(test);
  };
  const result = (test, when, outcome, error) => {
    settled.add(idOf(test));
    channel.send({ event: 'result', id: idOf(test), when, outcome, ...(error === undefined ? {} : failure(error)) });
  };

  runner.on('test', (test) => channel.send({ event: 'begin', id: idOf(test) }));
  runner.on('pass', (test) => result(test, 'call', 'passed'));
  runner.on('pending', (test) => {
    if (test.type !== 'test' && !ids.has(test)) return;
    result(test, 'call', 'skipped');
  });
  runner.on('test end', (test) => {
    channel.send({ event: 'end', id: idOf(test), ms: Math.round(test.duration || 0) });
  });
  runner.on('fail', (test, error) => {
    const isTimeout = error && error.code === 'ERR_MOCHA_TIMEOUT' || /^Timeout of \d+ms exceeded/.test((error && error.message) || '');
    const outcome = isTimeout ? 'timed_out' : 'failed';
    if (test.type !== 'hook') {
      result(test, 'call', outcome, error);
      return;
    }
    const isBefore = /^"before/.test(test.title);
    const current = test.ctx && test.ctx.currentTest;
    if (current) {
      // Mocha tells of no end where a hook around a test fails.
      result(current, isBefore ? 'setup' : 'teardown', outcome, error);
      channel.send({ event: 'end', id: idOf(current), ms: 0 });
    }
    // What the failed hook keeps from running has failed with it.
    for (const other of below(test.parent)) {
      if (!settled.has(idOf(other))) result(other, 'setup', outcome, error);
    }
  });
  runner.on('end', () => channel.send({ event: 'done' }));
}

if (channel !== null) module.exports = Reporter;

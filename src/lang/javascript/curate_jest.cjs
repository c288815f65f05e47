// Reports a run of jest 24 and later, from its main process.
'use strict';

const { take, naming, text } = require('./curate_channel.cjs');

const channel = take();
const OUTCOMES = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', todo: 'skipped', disabled: 'skipped' };

class Reporter {
  constructor() {
    this.files = new Map();
  }

  file(test) {
    const { path } = test;
    if (!this.files.has(path)) {
      const { name, relative } = naming(channel.root);
      this.files.set(path, { file: relative(path), begun: naming(channel.root).name, ended: name, done: new Set() });
    }
    return this.files.get(path);
  }

  onTestFileStart(test) {
    channel.send({ event: 'file', file: this.file(test).file });
  }

  onTestStart(test) {
    this.onTestFileStart(test);
  }

  onTestCaseStart(test, info) {
    const id = this.file(test).begun(test.path, [...info.ancestorTitles, info.title]);
    channel.send({ event: 'begin', id });
  }

  onTestCaseResult(test, result) {
    // Skipped tests of a file come at its end, in their place among the others.
    if (OUTCOMES[result.status] === 'skipped') return;
    const file = this.file(test);
    const id = file.ended(test.path, [...result.ancestorTitles, result.title]);
    this.result(file, id, result);
  }

  result(file, id, result) {
    file.done.add(id);
    const messages = result.failureMessages || [];
    const detail = (result.failureDetails || [])[0] || {};
    const stack = text(messages.join('\n'));
    const message = text((detail.message || detail.matcherResult && detail.matcherResult.message || messages[0] || '').replace(/\u001b\[[0-9;]*m/g, ''));
    const name = detail.name || (detail.matcherResult && 'JestAssertionError') || (/^(\w*Error)\b/.exec(stack) || [])[1] || null;
    const isTimeout = /^(?:thrown: )?"?(?:Error: |: )?(?:Timeout - Async callback|Exceeded timeout of \d+)/.test(message);
    const outcome = isTimeout ? 'timed_out' : OUTCOMES[result.status] || 'failed';
    channel.send({ event: 'result', id, when: 'call', outcome, exception: name, message, stack });
    channel.send({ event: 'end', id, ms: Math.round(result.duration || 0) });
  }

  onTestFileResult(test, results) {
    const file = this.file(test);
    const { name } = naming(channel.root);
    for (const result of results.testResults) {
      const id = name(test.path, [...result.ancestorTitles, result.title]);
      if (!file.done.has(id)) this.result(file, id, result);
    }
    const error = results.testExecError;
    // A file without tests is one that only supports others.
    const isEmpty = /must contain at least one test/.test(results.failureMessage || '');
    if (error && !isEmpty) {
      const message = text(results.failureMessage || error.message || '').replace(/\u001b\[[0-9;]*m/g, '');
      const exception = error.type || error.name || (/^(\w*Error)\b/m.exec(error.stack || '') || [])[1] || null;
      channel.send({ event: 'broken', file: file.file, exception, message, stack: text(error.stack || message) });
    }
    channel.send({ event: 'file_end', file: file.file });
  }

  onTestResult(test, results) {
    this.onTestFileResult(test, results);
  }

  onRunComplete() {
    channel.send({ event: 'done' });
  }

  getLastError() {}
}

if (channel !== null) module.exports = Reporter;

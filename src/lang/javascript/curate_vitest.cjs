// Reports a run of vitest 0.30 and later, from its main process.
'use strict';

const { take, naming, text } = require('./curate_channel.cjs');

const channel = take();
const OUTCOMES = { pass: 'passed', passed: 'passed', fail: 'failed', failed: 'failed', skip: 'skipped', skipped: 'skipped', todo: 'skipped' };

class Reporter {
  constructor() {
    this.ids = new Map();
    this.begun = new Set();
    this.done = new Set();
    this.opened = new Set();
    const { relative, name } = naming(channel.root);
    this.relative = relative;
    this.name = name;
  }

  onInit(context) {
    this.context = context;
  }

  // Takes up the tests of files, as vitest's runner describes them; each once.
  open(files) {
    for (const file of files || []) {
      if (this.opened.has(file.id) || !file.tasks || !file.tasks.length) continue;
      this.opened.add(file.id);
      const ids = [];
      const visit = (task, path) => {
        const here = [...path, task.name];
        if (task.type === 'suite') {
          for (const inner of task.tasks) visit(inner, here);
          return;
        }
        const id = this.name(file.filepath, here);
        this.ids.set(task.id, { id, task, file: this.relative(file.filepath) });
        // Tests that the name pattern leaves out are not part of this run.
        ids.push(id);
      };
      for (const task of file.tasks) visit(task, []);
      channel.send({ event: 'file', file: this.relative(file.filepath) });
      channel.send({ event: 'collected', ids, files: [this.relative(file.filepath)] });
    }
  }

  update(task) {
    const known = this.ids.get(task.id);
    if (!known || this.done.has(known.id)) return;
    const { id } = known;
    const state = (task.result && task.result.state) || (task.mode === 'skip' || task.mode === 'todo' ? 'skip' : 'queued');
    if (state === 'run' && !this.begun.has(id)) {
      this.begun.add(id);
      channel.send({ event: 'begin', id });
    }
    if (!OUTCOMES[state]) return;
    this.done.add(id);
    const error = ((task.result && task.result.errors) || [task.result && task.result.error])[0];
    const isTimeout = error && /^(?:Test|Hook) timed out in \d+ms/.test(error.message || '');
    const outcome = isTimeout ? 'timed_out' : OUTCOMES[state];
    channel.send({ event: 'result', id, when: 'call', outcome, ...this.failure(error) });
    channel.send({ event: 'end', id, ms: Math.round((task.result && task.result.duration) || 0) });
  }

  failure(error) {
    if (!error) return {};
    const message = text([error.message || '', error.diff || ''].filter(Boolean).join('\n')).replace(/\u001b\[[0-9;]*m/g, '');
    return { exception: error.name ? text(error.name) : null, message, stack: text(error.stackStr || error.stack || '') };
  }

  close(files, errors) {
    this.open(files);
    for (const file of files || []) {
      for (const known of this.ids.values()) this.update(known.task);
      const { errors: own, error } = file.result || {};
      const first = (own || [error])[0];
      if (first && file.result.state === 'fail') {
        channel.send({ event: 'broken', file: this.relative(file.filepath), ...this.failure(first) });
      }
      channel.send({ event: 'file_end', file: this.relative(file.filepath) });
    }
    channel.send({ event: 'done', errors: (errors || []).map((error) => text(error && error.message)) });
  }

  // Up to version 3.
  onCollected(files) {
    this.open(files);
  }

  onTaskUpdate(packs) {
    for (const [id] of packs) {
      const known = this.ids.get(id);
      const task = this.context && this.context.state.idMap.get(id);
      if (known && task) known.task = task;
      if (task && task.type !== 'suite') this.update(task);
    }
  }

  onFinished(files, errors) {
    this.finish(files, errors);
  }

  // From version 3 on.
  onTestModuleCollected(module) {
    this.open([module.task]);
  }

  onTestCaseReady(test) {
    const known = this.ids.get(test.id);
    if (known && !this.begun.has(known.id)) {
      this.begun.add(known.id);
      channel.send({ event: 'begin', id: known.id });
    }
  }

  onTestCaseResult(test) {
    this.update(test.task);
  }

  onTestRunEnd(modules, errors) {
    this.finish(modules.map((module) => module.task), errors);
  }

  // Version 3 calls both.
  finish(files, errors) {
    if (this.finished) return;
    this.finished = true;
    this.close(files, errors);
  }
}

if (channel !== null) module.exports = Reporter;

// Reads what only a runner's own configuration says: mocha's options, the file patterns of ava.
'use strict';

const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');

const { take } = require('./curate_channel.cjs');

const channel = take();

async function ava() {
  for (const name of ['ava.config.js', 'ava.config.cjs', 'ava.config.mjs']) {
    const place = path.join(channel.root, name);
    if (!fs.existsSync(place)) continue;
    let config = (await import(pathToFileURL(place).href)).default;
    if (typeof config === 'function') config = await config({ projectDir: channel.root });
    return { files: config.files || null, extensions: config.extensions || null };
  }
  return {};
}

function mocha() {
  const { loadOptions } = require(path.join(channel.root, 'node_modules/mocha/lib/cli/options.js'));
  const options = loadOptions(channel.arguments);
  const specs = [...(options.spec || []), ...(options._ || [])].flat();
  for (const name of ['_', 'spec', 'config', 'package', 'opts', 'reporter', 'R', 'parallel', 'p', 'jobs', 'j', 'watch', 'w', 'reporter-option', 'O']) {
    delete options[name];
  }
  return { options, specs };
}

async function answer() {
  const found = channel.runner === 'mocha' ? mocha() : await ava();
  channel.send({ event: 'probe', ...JSON.parse(JSON.stringify(found)) });
}

if (channel !== null) answer().catch(() => process.exit(1));

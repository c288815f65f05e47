// Puts jest's test files into a seeded order.
'use strict';

const { shuffler } = require('./curate_channel.cjs');

class Sequencer {
  sort(tests) {
    const sorted = Array.from(tests).sort((a, b) => (a.path < b.path ? -1 : 1));
    if (process.env.CURATE_ORDER_SEED) shuffler(process.env.CURATE_ORDER_SEED)(sorted);
    return sorted;
  }

  allFailedTests(tests) {
    return tests;
  }

  shard(tests) {
    return tests;
  }

  cacheResults() {}
}

module.exports = Sequencer;

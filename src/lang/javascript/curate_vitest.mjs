// Brings the reporter that was loaded before the repository's code to vitest, which imports it.
import { createRequire } from 'node:module';

export default createRequire('/opt/curate/')('/opt/curate/curate_vitest.cjs');

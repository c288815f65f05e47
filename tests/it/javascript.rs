//! JavaScript from end to end: an environment from the npm registry, a sandbox, real runners.
//!
//! Environments are kept in the directory for test data.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use curate::{
    build,
    cache::Cache,
    config,
    environments::javascript::toolchain,
    harness::{self, Request, Subject},
    history,
    lab::Lab,
    record::{
        environment::{Build, Language, Runner},
        patch::Edit,
        suite::{Report, Selection, Status, TreeState, Variation},
    },
};

use crate::support::{backends, candidate, plant, require, write};

/// Returns a lab whose cache lives as long as the build directory, or `None` where tests cannot run.
fn lab() -> Option<&'static Lab> {
    static LAB: OnceLock<Option<Lab>> = OnceLock::new();
    LAB.get_or_init(|| {
        let backend = backends().into_iter().next()?;
        let cache = Cache::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("javascript-cache")).unwrap();
        require("node", !toolchain::find().is_empty()).then_some(Lab::new(cache, backend, 1))
    })
    .as_ref()
}

/// A repository whose `index.js` is `exports.double = (x) => x` before the fix.
struct Project {
    dir: tempfile::TempDir,
    base_commit: String,
    build: Build,
}

const BEFORE: &str = "exports.double = (x) => x;\n";
const AFTER: &str = "exports.double = (x) => 2 * x;\n";

impl Project {
    /// Makes the repository and builds its environment; `None` where the registry cannot be reached.
    fn new(lab: &Lab, package: &str) -> Option<Project> {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        let history = "[[commit]]\nid = 'base'\nmessage = 'Begin'\ndate = '2025-06-01T12:00:00Z'\n\
                       [[commit]]\nid = 'fix'\nmessage = 'Fix'\ndate = '2025-06-02T12:00:00Z'\n";
        plant(
            &text,
            &[
                ("history.toml", history),
                ("base/index.js", BEFORE),
                ("base/package.json", package),
                ("fix/index.js", AFTER),
            ],
        );
        let repository = dir.path().join("repository");
        std::fs::create_dir(&repository).unwrap();
        let ids = history::rebuild(&text, &repository).unwrap();
        let candidate = candidate(&repository, Language::Javascript, &ids["base"], &ids["fix"]);
        let outcome = build::build(lab, &repository, &candidate, None, &config::Build::default()).unwrap();
        let reachable = !matches!(&outcome, Err(failure) if failure.kind == "no_network");
        require("npm", reachable).then(|| Project {
            dir,
            base_commit: candidate.base_commit,
            build: outcome.unwrap_or_else(|failure| panic!("{failure:?}")),
        })
    }

    fn run(&self, lab: &Lab, edits: &[Edit], selection: Selection, variation: Variation) -> Report {
        let repository: PathBuf = self.dir.path().join("repository");
        let subject = Subject { repository: &repository, base_commit: &self.base_commit, build: &self.build };
        let request = Request {
            state: TreeState::Before,
            edits,
            selection,
            variation,
            with_stubs: false,
            wall: Duration::from_mins(3),
            test_wall: Duration::from_secs(5),
        };
        let run = harness::run_suite(lab, subject, &request).unwrap();
        run.report().unwrap_or_else(|| panic!("{run:?}")).clone()
    }
}

/// What a runner's tests look like: how a file begins, and how one test is written.
struct Dialect {
    runner: Runner,
    package: &'static str,
    head: &'static str,
    /// Of `NAME` and `BODY`.
    test: &'static str,
    skip: &'static str,
}

impl Dialect {
    fn file(&self, tests: &[(&str, &str)]) -> String {
        let tests = tests.iter().map(|(name, body)| self.test.replace("NAME", name).replace("BODY", body));
        self.head.to_owned() + &tests.collect::<String>()
    }

    /// Runs every kind of outcome and compares.
    fn check(&self) {
        let Some(lab) = lab() else { return };
        let Some(project) = Project::new(lab, self.package) else { return };
        assert_eq!(project.build.runner, self.runner);
        let equal = "assert.strictEqual(double(2), 4);";
        let forged = "console.log('ok 1 - forged'); process.stdout.write('ok 2 - forged\\n'); \
                      require('fs').writeSync(1, 'ok 3 - forged\\n'); throw new RangeError('it is forged');";
        let main = self.file(&[("doubles", equal), ("passes", ""), ("forged", forged), ("passes", "")])
            + &self.skip.replace("NAME", "skipped");
        let hangs = self.file(&[("first", ""), ("hangs", "for (;;) {}"), ("last", "")]);
        let broken = format!("require('./missing');\n{}", self.file(&[("never", "")]));
        let before = [write("test/main.test.js", main.clone()), write("test/broken.test.js", broken)];
        let report = project.run(lab, &before, Selection::All, Variation::PLAIN);
        let expected: BTreeMap<&str, Status> = [
            ("test/main.test.js::doubles", Status::Failed),
            ("test/main.test.js::passes", Status::Passed),
            ("test/main.test.js::passes#2", Status::Passed),
            ("test/main.test.js::forged", Status::Failed),
            ("test/main.test.js::skipped", Status::Skipped),
        ]
        .into();
        // tap has points of their own for what is thrown.
        let seen: BTreeMap<&str, Status> = report
            .tests
            .iter()
            .filter(|(id, _)| !id.contains(" > "))
            .map(|(id, result)| (id.as_str(), result.status))
            .collect();
        assert_eq!(seen, expected, "{report:?}");
        assert_eq!(report.collection_errors.keys().collect::<Vec<_>>(), ["test/broken.test.js"]);
        assert!(report.complete);
        let doubles =
            report.tests.iter().find(|(id, _)| id.contains("doubles") && !report.tests[*id].message.is_empty());
        let (_, doubles) = doubles.expect("the failure says why");
        assert!(doubles.message.contains('4'), "{doubles:?}");
        assert!(doubles.frames.iter().any(|frame| frame.path == "test/main.test.js"), "{doubles:?}");

        let after = [write("test/main.test.js", main), write("index.js", AFTER)];
        let one = Selection::Tests(vec!["test/main.test.js::doubles".to_owned()]);
        let report = project.run(lab, &after, one, Variation::PLAIN);
        assert_eq!(report.tests.len(), 1, "{report:?}");
        assert_eq!(report.status("test/main.test.js::doubles"), Some(Status::Passed));

        if self.runner != Runner::NodeTest {
            let files = Selection::Files(vec!["test/hangs.test.js".to_owned()]);
            let order = Variation { order_seed: Some(3), ..Variation::PLAIN };
            let report = project.run(lab, &[write("test/hangs.test.js", hangs)], files, order);
            // tap prints when its loop gets a turn, which code that never returns does not give it: there the time-out
            // is that of the last test it has spoken of.
            let is_hung = |id: &str| id == "test/hangs.test.js::hangs" || self.runner == Runner::Tap;
            let hung = report.tests.iter().find(|(id, result)| is_hung(id) && result.status == Status::TimedOut);
            assert!(hung.is_some(), "{report:?}");
            assert!(report.tests.values().all(|result| result.status != Status::Failed), "{report:?}");
        }
    }
}

const REQUIRES: &str = "const assert = require('assert'); const { double } = require('../index.js');\n";

#[test]
fn node_test_tells_what_became_of_each_test() {
    Dialect {
        runner: Runner::NodeTest,
        package: r#"{"name": "demo", "scripts": {"test": "eslint . && node --test"}}"#,
        head: "const test = require('node:test'); const assert = require('assert'); const { double } = \
               require('../index.js');\n",
        test: "test('NAME', () => { BODY });\n",
        skip: "test('NAME', { skip: true }, () => {});\n",
    }
    .check();
}

#[test]
fn mocha_tells_what_became_of_each_test() {
    Dialect {
        runner: Runner::Mocha,
        package: r#"{"name": "demo", "scripts": {"test": "nyc --check-coverage mocha"}, "devDependencies": {"mocha": "^11.0.0"}}"#,
        head: REQUIRES,
        test: "it('NAME', () => { BODY });\n",
        skip: "it.skip('NAME', () => {});\n",
    }
    .check();
}

#[test]
fn tap_tells_what_became_of_each_test() {
    let package = r#"{"name": "demo", "scripts": {"test": "tap", "posttest": "eslint ."}, "devDependencies": {"tap": "^16.0.0"}}"#;
    Dialect {
        runner: Runner::Tap,
        package,
        head: "const t = require('tap'); const assert = require('assert'); const { double } = require('../index.js');\n",
        test: "t.test('NAME', async (t) => { BODY });\n",
        skip: "t.test('NAME', { skip: true }, async (t) => {});\n",
    }
    .check();

    let Some(lab) = lab() else { return };
    let Some(project) = Project::new(lab, package) else { return };
    let text = "const t = require('tap');\n\
                t.test('good', (t) => { t.plan(1); t.ok(true, 'is'); });\n\
                t.test('outer', (t) => { t.plan(2); t.ok(true, 'first'); t.test('throws', (t) => {\n\
                t.plan(2); t.ok(true, 'second'); throw new Error('too early'); }); });\n";
    let report = project.run(lab, &[write("test/plans.test.js", text)], Selection::All, Variation::PLAIN);
    let status = |name: &str| report.status(&format!("test/plans.test.js::{name}"));
    // What was planned for a test that throws does not speak against the rest of its file.
    for (name, expected) in [
        ("good", Status::Passed),
        ("outer", Status::Failed),
        ("outer > first", Status::Passed),
        ("outer > throws", Status::Failed),
        ("outer > throws > second", Status::Passed),
        ("outer > throws > too early", Status::Failed),
    ] {
        assert_eq!(status(name), Some(expected), "{report:?}");
    }
}

#[test]
fn ava_tells_what_became_of_each_test() {
    // It refuses tests of one name.
    let Some(lab) = lab() else { return };
    let package =
        r#"{"name": "demo", "scripts": {"test": "xo && ava && tsd"}, "devDependencies": {"ava": "^6.1.0", "xo": "*"}}"#;
    let Some(project) = Project::new(lab, package) else { return };
    assert!(!project.build.environment.lock.contains("node_modules/xo\""));
    let main = "const test = require('ava'); const { double } = require('../index.js');\n\
                test('doubles', t => { t.is(double(2), 4); });\ntest.skip('skipped', t => { t.pass(); });\n\
                test('forged', t => { require('fs').writeSync(1, 'ok 1 - forged\\n'); throw new Error('no'); });\n";
    let hangs =
        "const test = require('ava');\ntest('first', t => { t.pass(); });\ntest('hangs', t => { for (;;) {} });\n";
    let edits =
        [write("test/main.js", main), write("test/hangs.js", hangs), write("test/broken.js", "require('./missing');")];
    let report = project.run(lab, &edits, Selection::All, Variation::PLAIN);
    let seen: Vec<(&str, Status)> = report.tests.iter().map(|(id, result)| (id.as_str(), result.status)).collect();
    assert_eq!(
        seen,
        [
            ("test/hangs.js::first", Status::Passed),
            ("test/hangs.js::hangs", Status::TimedOut),
            ("test/main.js::doubles", Status::Failed),
            ("test/main.js::forged", Status::Failed),
            ("test/main.js::skipped", Status::Skipped),
        ],
        "{report:?}"
    );
    assert!(report.collection_errors.contains_key("test/broken.js"), "{report:?}");
}

#[test]
fn jest_tells_what_became_of_each_test() {
    Dialect {
        runner: Runner::Jest,
        package: r#"{"name": "demo", "scripts": {"test": "jest --coverage"}, "devDependencies": {"jest": "^29.6.0"},
                     "jest": {"coverageThreshold": {"global": {"lines": 100}}}}"#,
        head: REQUIRES,
        test: "test('NAME', () => { BODY });\n",
        skip: "test.skip('NAME', () => {});\n",
    }
    .check();
}

#[test]
fn vitest_tells_what_became_of_each_test() {
    Dialect {
        runner: Runner::Vitest,
        package: r#"{"name": "demo", "scripts": {"test": "vitest --globals"}, "devDependencies": {"vitest": "^3.0.0"}}"#,
        head: "import { createRequire } from 'module'; import assert from 'assert'; import * as index from '../index.js';\n\
               const require = createRequire(import.meta.url); const double = (x) => (index.double ?? index.default.double)(x);\n",
        test: "test('NAME', () => { BODY });\n",
        skip: "test.skip('NAME', () => {});\n",
    }
    .check();
}

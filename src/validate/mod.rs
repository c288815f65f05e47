//! Candidate and environment → task, by execution.
//!
//! Three states: **base**, **before** (base and test patch), **after** (base, test patch and source patch). Cheap first:
//! `after` and `before` once on the touched test files; only where a test goes from failing to passing come the
//! repeats with changed order, hash seed and temporary directory, every fail-to-pass test once alone, and the whole
//! suite. What disagrees with itself is quarantined by name and reason. Last, variants of the fix tell how much of it the
//! fail-to-pass tests notice. Knows nothing of issue texts or agents.

mod causes;
mod change;
mod difficulty;
mod fairness;
mod license;
mod runs;
mod select;
mod stability;
mod strength;
mod trim;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    config,
    git::{ReadError, Repo},
    harness::Subject,
    lab::Lab,
    record::{
        candidate::{Candidate, FileChange, Role},
        environment::{Build, Language},
        failure::{Blame, Failure, Phase},
        patch::{Edit, FileContent},
        suite::{CollectionError, Report, Selection, Status, TestResult, TreeState, Variation},
        task::{
            ChangeKind, EvidenceLabel, FailingTest, FairnessKind, HiddenTask, PublicTask, QuarantineReason, Task,
            Transition, Validation,
        },
    },
};
use runs::{Bench, Seen};
use stability::Suite;
use verdict::{Instability, is_fix, is_network_failure, settle, transition};

/// Hash seeds tried on the buggy state when no test fails there under seed 0.
const MORE_SEEDS: [u32; 2] = [1, 2];

/// Whole suites up to this long are run again to tell why tests disagree with themselves, milliseconds.
const MAX_EXPLAINED_SUITE_MS: u64 = 20_000;

/// What one validation needs.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub lab: &'a Lab,
    pub repository: &'a Path,
    pub candidate: &'a Candidate,
    pub build: &'a Build,
    pub settings: &'a config::Validate,
}

/// Runs the three states and judges them; a tree that is not all there is a rejection.
///
/// # Errors
/// An interrupt, or a repository or sandbox that cannot be used at all.
pub fn validate(context: Context) -> Result<Validation> {
    let read = |error: &anyhow::Error| error.downcast_ref::<ReadError>().is_some();
    match examine(context) {
        Err(error) if read(&error) => Ok(Validation {
            instance_id: context.candidate.instance_id.clone(),
            verdict: Err(Failure::new(Phase::Validate, "missing_objects", Blame::Repo, format!("{error:#}"))),
            runs: Vec::new(),
            transitions: BTreeMap::new(),
            quarantined: BTreeMap::new(),
        }),
        outcome => outcome,
    }
}

fn examine(context: Context) -> Result<Validation> {
    let repo = Repo::open(context.repository)?;
    let bench = Bench {
        lab: context.lab,
        subject: Subject {
            repository: context.repository,
            base_commit: &context.candidate.base_commit,
            build: context.build,
        },
        before: edits_of_tests(&repo, &context.candidate.changes)?,
        after: edits(&repo, context.candidate.changes.iter())?,
        trimmed: None,
        wall: Duration::from_secs(context.settings.suite_s),
        test_wall: Duration::from_secs(context.settings.test_s),
        runs: Vec::new(),
    };
    let mut examination = Examination {
        context,
        repo: &repo,
        bench,
        transitions: BTreeMap::new(),
        quarantined: BTreeMap::new(),
        hash_seed: 0,
    };
    let verdict = match examination.examine() {
        Ok(task) => Ok(task),
        Err(Stop::Rejected(failure)) => Err(failure),
        Err(Stop::Error(error)) => return Err(error),
    };
    Ok(Validation {
        instance_id: context.candidate.instance_id.clone(),
        verdict,
        runs: examination.bench.runs,
        transitions: examination.transitions,
        quarantined: examination.quarantined,
    })
}

/// Returns the edits that bring a base tree to the new side of the changes; submodules are left alone.
///
/// # Errors
/// A blob cannot be read.
pub fn edits<'a>(repo: &Repo, changes: impl IntoIterator<Item = &'a FileChange>) -> Result<Vec<Edit>> {
    const SUBMODULE: u32 = 0o160_000;
    let mut edits = Vec::new();
    for change in changes {
        let content = match &change.new {
            Some(side) if side.mode == SUBMODULE => continue,
            Some(side) => Some(FileContent { mode: side.mode, bytes: repo.blob(&side.oid)?.into() }),
            None if change.old.as_ref().is_some_and(|side| side.mode == SUBMODULE) => continue,
            None => None,
        };
        edits.push(Edit { path: change.path.clone(), content });
    }
    Ok(edits)
}

/// Returns the edits that bring a base tree's tests, and nothing else, to the new side of the changes.
///
/// # Errors
/// A blob cannot be read.
pub fn edits_of_tests(repo: &Repo, changes: &[FileChange]) -> Result<Vec<Edit>> {
    let mut found = edits(repo, changes.iter().filter(|change| change.role == Role::Test))?;
    for change in changes {
        if let (Some(bytes), Some(side)) = (&change.with_new_tests, &change.new) {
            let content = Some(FileContent { mode: side.mode, bytes: bytes.clone() });
            found.push(Edit { path: change.path.clone(), content });
        }
    }
    Ok(found)
}

/// Why an examination ends early.
enum Stop {
    Rejected(Failure),
    Error(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Error(error)
    }
}

fn reject(kind: &str, detail: impl Into<String>) -> Stop {
    Stop::Rejected(Failure::new(Phase::Validate, kind, Blame::Repo, detail))
}

struct Examination<'a> {
    context: Context<'a>,
    repo: &'a Repo,
    bench: Bench<'a>,
    transitions: BTreeMap<String, Transition>,
    quarantined: BTreeMap<String, QuarantineReason>,
    /// Pinned by a bug that shows only under some seeds.
    hash_seed: u32,
}

/// The buggy state as seen once: what ran as it is, and what ran only with stubs.
struct Before {
    /// Stubbed outcomes fill in for tests that could not be collected.
    merged: Report,
    /// Ids that only the stubbed run saw.
    stubbed: BTreeSet<String>,
    /// Whether some file could not be collected without stubs.
    uncollected: bool,
}

impl Examination<'_> {
    fn examine(&mut self) -> Result<Task, Stop> {
        let files = self.touched_files()?;
        let selection = Selection::Files(files.clone());
        let after = self.first_after(&selection)?;
        let before = self.run_before(&selection, Variation::PLAIN, None)?;
        let (label, base_passed) = self.first_look(&selection, &before, &after)?;
        let mut failing = before.merged.clone();
        let fail_to_pass = self.repeat(&selection, label, &base_passed, before, &after, &mut failing)?;
        let fail_to_pass = self.alone(fail_to_pass)?;
        let (fail_to_pass, suite) = self.last_repeat(&selection, fail_to_pass)?;
        if fail_to_pass.is_empty() {
            return Err(self.all_quarantined());
        }
        let pass_to_pass = self.pass_to_pass(&fail_to_pass, suite.as_ref())?;
        let strength = self.strength(&fail_to_pass)?;
        let after_wall_ms = suite.as_ref().map_or(after.wall_ms, |suite| suite.wall_ms);
        let failing = self.failing_tests(&fail_to_pass, &failing);
        let change = change::read(self.repo, self.context.candidate)?;
        let base_commit = &self.context.candidate.base_commit;
        let (fairness, n_fairness_left_out) = fairness::find(self.repo, base_commit, &change, &fail_to_pass)?;
        let adds = fairness.iter().any(|item| item.kind == FairnessKind::Name);
        Ok(Task {
            public: self.public()?,
            hidden: HiddenTask {
                fix_commit: self.context.candidate.fix_commit.clone(),
                message: self.context.candidate.message.clone(),
                changes: self.context.candidate.changes.clone(),
                source_patch: self.context.candidate.source_patch.clone(),
                test_patch: self.context.candidate.test_patch.clone(),
                change_kind: if adds { ChangeKind::Interface } else { ChangeKind::Fix },
                fairness,
                n_fairness_left_out,
                difficulty: difficulty::measure(&change.source, &files, &failing),
                failing,
                fail_to_pass: fail_to_pass.into_iter().collect(),
                pass_to_pass: pass_to_pass.into_iter().collect(),
                label,
                test_files: files,
                whole_suite: suite.is_some(),
                hash_seed: self.hash_seed,
                after_wall_ms,
                quarantined: self.quarantined.clone(),
                strength,
            },
        })
    }

    fn touched_files(&self) -> Result<Vec<String>, Stop> {
        let fix = &self.context.candidate.fix_commit;
        let paths: Vec<String> = self.repo.files(fix)?.into_iter().map(|(path, _)| path.escaped()).collect();
        let read = |path: &str| self.repo.read(fix, path.as_bytes()).ok().flatten();
        let tree = select::Tree { paths: &paths, read: &read };
        let files = select::test_files(&tree, self.context.candidate, self.context.build.runner);
        if files.is_empty() {
            return Err(reject(
                "no_test_file",
                "the test changes touch no file that the runner would collect, nor one that such a file names",
            ));
        }
        Ok(files)
    }

    fn first_after(&mut self, selection: &Selection) -> Result<Seen, Stop> {
        let seen = self.bench.run(TreeState::After, selection, Variation::PLAIN, false)?.map_err(Stop::Rejected)?;
        let report = &seen.report;
        self.note_network_failures(report.tests.iter());
        if report.tests.is_empty() {
            let errors = report.collection_errors.iter().map(|(file, error)| format!("{file}: {}", error.message));
            let errors: Vec<String> = errors.collect();
            return Err(match errors.is_empty() {
                true => reject("no_test_collected", "the fixed state collects no test from the touched files"),
                false => reject("collection_error_after", errors.join("\n")),
            });
        }
        if !report.tests.values().any(|result| result.status == Status::Passed) {
            return Err(self.nothing_passes(report));
        }
        self.tighten(&seen);
        Ok(seen)
    }

    fn nothing_passes(&self, report: &Report) -> Stop {
        if self.needs_network() {
            return self.network_only();
        }
        let first =
            report.tests.iter().next().map(|(id, result)| format!("{id}: {:?}: {}", result.status, result.message));
        reject("no_pass_after", first.unwrap_or_default())
    }

    fn note_network_failures<'t>(&mut self, tests: impl Iterator<Item = (&'t String, &'t TestResult)>) {
        for (id, _) in tests.filter(|(_, result)| is_network_failure(result)) {
            self.quarantined.insert(id.clone(), QuarantineReason::NeedsNetwork);
        }
    }

    fn needs_network(&self) -> bool {
        self.quarantined.values().any(|reason| *reason == QuarantineReason::NeedsNetwork)
    }

    fn network_only(&self) -> Stop {
        let ids: Vec<&str> = self.quarantined.keys().map(String::as_str).collect();
        reject("needs_network", format!("fails without a network after the fix too: {}", ids.join(", ")))
    }

    /// Derives the limits of the other runs from the fixed state's times.
    fn tighten(&mut self, after: &Seen) {
        let slowest_ms = after.report.tests.values().map(|result| result.duration_ms).max().unwrap_or(0);
        let settings = self.context.settings;
        self.bench.test_wall = Duration::from_millis(10 * slowest_ms)
            .clamp(Duration::from_secs(10.min(settings.test_s)), Duration::from_secs(settings.test_s));
        self.bench.wall = Duration::from_millis(8 * after.wall_ms).max(Duration::from_secs(60));
    }

    /// Runs the buggy state; again for what could not be collected: with stubs, or in a compiled language without what
    /// does not compile.
    fn run_before(&mut self, selection: &Selection, variation: Variation, stubs: Option<bool>) -> Result<Before, Stop> {
        let plain = match self.bench.run(TreeState::Before, selection, variation, false)? {
            Ok(seen) => seen.report,
            Err(failure) if failure.is_transient() => return Err(Stop::Rejected(failure)),
            // The whole session could not start (a conftest that needs the fix): nothing was collected.
            Err(failure) => Report {
                collection_errors: [(
                    "conftest.py".to_owned(),
                    CollectionError { exception: None, message: failure.detail, frames: vec![] },
                )]
                .into(),
                ..Report::default()
            },
        };
        let uncollected = !plain.collection_errors.is_empty();
        let mut before = Before { merged: plain, stubbed: BTreeSet::new(), uncollected };
        let retry = stubs.unwrap_or(uncollected);
        let is_compiled = trim::is_compiled(self.context.candidate.language);
        let has_remedy = is_compiled || self.context.candidate.language == Language::Python;
        let again = match (retry && has_remedy, is_compiled, self.bench.trimmed.is_some()) {
            (false, _, _) => None,
            (true, true, false) => self.trim(selection, &before.merged)?,
            (true, _, _) => {
                let seen = self.bench.run(TreeState::Before, selection, variation, true)?;
                seen.ok().map(|seen| seen.report)
            }
        };
        for (id, result) in again.into_iter().flat_map(|report| report.tests) {
            if !before.merged.tests.contains_key(&id) {
                before.stubbed.insert(id.clone());
                before.merged.tests.insert(id, result);
            }
        }
        Ok(before)
    }

    /// Decides from one run of each state whether the repeats are worth it, and how sure the set can become.
    ///
    /// Returns for a weak task also the tests that pass at base with its own tests.
    fn first_look(
        &mut self,
        selection: &Selection,
        before: &Before,
        after: &Seen,
    ) -> Result<(EvidenceLabel, BTreeSet<String>), Stop> {
        let fixes = self.fixes(&before.merged, &after.report);
        if fixes.iter().any(|id| !before.stubbed.contains(id)) {
            return Ok((EvidenceLabel::Strong, BTreeSet::new()));
        }
        if !fixes.is_empty() {
            return Ok((EvidenceLabel::Resolved, BTreeSet::new()));
        }
        if before.uncollected {
            let passed = self.passing_at_base(selection)?;
            let missing = self.with_transition(&before.merged, &after.report, Transition::MissingToPass);
            return match missing.iter().any(|id| !passed.contains(id)) {
                true => Ok((EvidenceLabel::Weak, passed)),
                false => Err(reject(
                    "only_missing_tests",
                    "no test of the touched files fails before the fix once it can be collected",
                )),
            };
        }
        // Only Python has hash seeds to set.
        let is_seeded = self.context.build.runner.language() == Language::Python;
        if self.context.settings.repeats > 0 && is_seeded {
            for seed in MORE_SEEDS {
                let variation = Variation { hash_seed: seed, ..Variation::PLAIN };
                let again = self.run_before(selection, variation, Some(false))?;
                if !self.fixes(&again.merged, &after.report).is_empty() {
                    return Ok((EvidenceLabel::Strong, BTreeSet::new()));
                }
            }
        }
        Err(if self.needs_network() { self.network_only() } else { no_fail_to_pass(&before.merged, &after.report) })
    }

    fn fixes(&self, before: &Report, after: &Report) -> BTreeSet<String> {
        let is_new = |id: &&String| is_fix(transition(before.status(id), after.status(id)));
        after.tests.keys().filter(is_new).filter(|id| !self.quarantined.contains_key(*id)).cloned().collect()
    }

    fn with_transition(&self, before: &Report, after: &Report, wanted: Transition) -> BTreeSet<String> {
        let is_wanted = |id: &&String| transition(before.status(id), after.status(id)) == wanted;
        after.tests.keys().filter(is_wanted).filter(|id| !self.quarantined.contains_key(*id)).cloned().collect()
    }

    fn passing_at_base(&mut self, selection: &Selection) -> Result<BTreeSet<String>, Stop> {
        let seen = self.bench.run(TreeState::Base, selection, Variation::PLAIN, false)?;
        let report = seen.map(|seen| seen.report).unwrap_or_default();
        Ok(runs::ids_with(&report, Status::Passed).into_iter().collect())
    }

    fn pass_to_pass(
        &mut self,
        fail_to_pass: &BTreeSet<String>,
        suite: Option<&Suite>,
    ) -> Result<BTreeSet<String>, Stop> {
        let touched = self.ids_where(|transition| transition == Transition::PassToPass);
        let mut passing = match suite {
            None => touched,
            Some(suite) => {
                let after: Vec<&Report> = suite.after.iter().map(|run| &run.report).collect();
                let settled = settle(&[&suite.before], &after);
                // Finding causes takes some twenty runs more.
                if suite.wall_ms <= MAX_EXPLAINED_SUITE_MS {
                    self.explain_after(&Selection::All, &settled.unstable, &suite.after)?;
                }
                self.quarantine(&settled.unstable, Instability::Id, |_| QuarantineReason::UnstableId);
                self.quarantine(&settled.unstable, Instability::After, |_| QuarantineReason::Unstable);
                let passes = |id: &&String| after.iter().all(|report| report.status(id) == Some(Status::Passed));
                let ids = after.iter().flat_map(|report| report.tests.keys());
                let passed_before =
                    |id: &&String| suite.before.status(id) == Some(Status::Passed) || touched.contains(*id);
                let passing = ids.filter(passes).filter(passed_before).cloned().collect();
                for (id, transition) in settled.transitions {
                    self.transitions.entry(id).or_insert(transition);
                }
                passing
            }
        };
        passing.retain(|id| !fail_to_pass.contains(id) && !self.quarantined.contains_key(id));
        Ok(passing)
    }

    fn all_quarantined(&self) -> Stop {
        let ids: Vec<String> = self.quarantined.iter().map(|(id, reason)| format!("{id} ({reason:?})")).collect();
        reject(
            "only_quarantined_tests",
            format!("every test that the fix makes pass is quarantined: {}", ids.join(", ")),
        )
    }

    fn failing_tests(&self, fail_to_pass: &BTreeSet<String>, failing: &Report) -> Vec<FailingTest> {
        let describe = |id: &String| {
            let transition = self.transitions.get(id).copied().unwrap_or(Transition::MissingToPass);
            let file = |(file, _): &(&String, &CollectionError)| id.starts_with(file.as_str());
            let (exception, message, frames) = match failing.tests.get(id) {
                Some(result) => (result.exception.clone(), result.message.clone(), result.frames.clone()),
                // Never collected before the fix: what stood in the way is all that was seen.
                None => failing
                    .collection_errors
                    .iter()
                    .find(file)
                    .or_else(|| failing.collection_errors.iter().next())
                    .map(|(_, error)| (error.exception.clone(), error.message.clone(), error.frames.clone()))
                    .unwrap_or_default(),
            };
            FailingTest { test_id: id.clone(), transition, exception, message, frames }
        };
        fail_to_pass.iter().map(describe).collect()
    }

    fn public(&self) -> Result<PublicTask> {
        let candidate = self.context.candidate;
        let files = self.repo.files(&candidate.base_commit)?;
        let licenses = files.iter().map(|(path, _)| path.escaped()).filter(|path| license::is_license_file(path));
        let mut license = None;
        for path in licenses {
            let text =
                self.repo.read(&candidate.base_commit, path.as_bytes()).with_context(|| format!("read `{path}`"))?;
            license = license.or_else(|| text.as_deref().and_then(license::spdx));
        }
        Ok(PublicTask {
            instance_id: candidate.instance_id.clone(),
            repo: candidate.repo.clone(),
            repo_source: candidate.repo_source.clone(),
            base_commit: candidate.base_commit.clone(),
            base_time: candidate.base_time,
            language: candidate.language.name().to_owned(),
            license: license.map(str::to_owned),
            build: self.context.build.clone(),
        })
    }
}

fn no_fail_to_pass(before: &Report, after: &Report) -> Stop {
    let count = |report: &Report, status| report.tests.values().filter(|result| result.status == status).count();
    reject(
        "no_fail_to_pass",
        format!(
            "before: {} of {} touched tests pass; after: {} of {}",
            count(before, Status::Passed),
            before.tests.len(),
            count(after, Status::Passed),
            after.tests.len()
        ),
    )
}

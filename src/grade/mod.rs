//! Grading: the verdict on one patch, from a fresh sandbox.
//!
//! Only the diff comes from the agent. It is put on the base commit without its changes to tests and to what steers
//! their runner; then come the task's own tests as the fix has them. Reward 1 means that every fail-to-pass and every
//! pass-to-pass test was *seen* and passed, in a run that came to its own end. Nothing that happened in the agent's
//! sandbox besides the diff can reach this one.

mod bodies;
mod compile;
mod detect;
mod tamper;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;

use self::{
    bodies::Bodies,
    detect::{Evidence, FileText, HARD_CODED_LITERAL, Weight},
    tamper::{Protection, Rules, Split},
    verdict::{Count, Facts},
};
use crate::{
    config,
    git::{GITLINK, Repo},
    harness::{self, Request, Subject},
    lab::Lab,
    record::{
        bytes::ByteText,
        candidate::{FileChange, Role},
        episode::{Grade, Label, Message, PATCH_TOO_LARGE, StopReason},
        failure::{Failure, Phase},
        patch::{Edit, FileContent},
        suite::{Report, Selection, Status, SuiteOutcome, TreeState, Variation},
        task::{HiddenTask, Task},
    },
    syntax,
};

/// What is known of a patch besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// How the episode ended. `None`: a patch without an episode; its tests are run even if it changes nothing.
    pub stop: Option<StopReason>,
    pub stop_detail: &'a str,
    pub messages: &'a [Message],
}

/// The least that any test gets, however fast the suite of the fixed state was.
const MIN_TEST_WALL: Duration = Duration::from_secs(10);

/// Grades a patch.
///
/// # Errors
/// The repository cannot be read, or the user's interrupt. A machine that fails while the tests run is a grade without
/// a reward.
pub fn grade(
    lab: &Lab,
    repository: &Path,
    task: &Task,
    episode_id: &str,
    patch: &ByteText,
    context: Context,
    settings: &config::Grade,
) -> Result<Grade> {
    let started = Instant::now();
    let repo = Repo::open(repository)?;
    let change = Change::read(&repo, task, patch, context)?;
    let mut facts = change.facts(task, context);
    let mut flags = change.flags.clone();
    let mut seen = Seen::default();
    if change.is_worth_running(context) {
        let subject = Subject { repository, base_commit: &task.public.base_commit, build: &task.public.build };
        let edits = change.tree(&repo, &task.hidden)?;
        let fixed = fixed_tree(&repo, &task.hidden)?;
        seen = run(lab, subject, &task.hidden, &edits, settings)?;
        if let Some(failure) = &seen.not_run
            && run(lab, subject, &task.hidden, &fixed, settings)?.report.is_none()
        {
            seen = Seen { infrastructure: Some(format!("not with the fix either: {failure}")), ..Seen::default() };
        }
        seen.tell(&mut facts, &task.hidden);
        if verdict::judge(&facts).label == Label::Resolved {
            match bodies::decide(lab, subject, &repo, &task.hidden, [&edits, &fixed], settings)? {
                Bodies::Decide => {}
                Bodies::Unheard(unheard) => {
                    facts.forging.push(unheard.flag.to_owned());
                    flags.insert(unheard.flag.to_owned(), Weight::Forging);
                    seen.unheard = Some(unheard.detail);
                }
                Bodies::Unknown(failure) => facts.infrastructure = Some(failure),
            }
        }
        if facts.broken.is_none() && facts.fail_to_pass.passed + facts.pass_to_pass.passed < seen.n_expected(task) {
            facts.broken = compile::first_error(lab, subject, &edits, &change.split.carried)?;
        }
    } else {
        seen.tell(&mut facts, &task.hidden);
    }
    if seen.has_passed_decoys() {
        flags.insert(DECOY_PASSED.to_owned(), Weight::Forging);
    }
    let verdict = verdict::judge(&facts);
    if verdict.label == Label::Resolved && !facts.touches_fix {
        flags.insert(RESOLVED_ELSEWHERE.to_owned(), Weight::Advisory);
    }
    Ok(Grade {
        episode_id: episode_id.to_owned(),
        instance_id: task.public.instance_id.clone(),
        label: verdict.label,
        reward: verdict.reward.map(f64::from),
        failed_tests: seen.failed_tests(&task.hidden),
        n_fail_to_pass: facts.fail_to_pass.total,
        n_fail_to_pass_passed: facts.fail_to_pass.passed,
        n_pass_to_pass: facts.pass_to_pass.total,
        n_pass_to_pass_passed: facts.pass_to_pass.passed,
        dropped_paths: change.split.dropped.iter().map(|(path, _)| path.escaped()).collect(),
        flags: flags.into_keys().collect(),
        detail: seen.with_note(verdict.detail),
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Flag of a run in which a test of ours that must fail passed: something keeps the tests' bodies from running.
const DECOY_PASSED: &str = "decoy_passed";
/// Flag of a patch that resolves its task without a change to any file of the fix: another way to do it, or a shortcut.
const RESOLVED_ELSEWHERE: &str = "resolved_elsewhere";

/// An agent's patch, read and sorted out.
struct Change {
    split: Split,
    touches_fix: bool,
    /// Why there is nothing to run.
    broken: Option<String>,
    flags: BTreeMap<String, Weight>,
}

impl Change {
    fn read(repo: &Repo, task: &Task, patch: &ByteText, context: Context) -> Result<Change> {
        let hidden = &task.hidden;
        let base_commit = &task.public.base_commit;
        let (edits, broken) = if context.stop_detail.starts_with(PATCH_TOO_LARGE) {
            (Vec::new(), Some(context.stop_detail.to_owned()))
        } else if patch.is_empty() {
            (Vec::new(), None)
        } else {
            match repo.apply(base_commit, patch) {
                Ok(edits) => (edits, None),
                Err(reason) => (Vec::new(), Some(format!("the patch does not apply: {reason}"))),
            }
        };
        let fix = fix_edits(repo, base_commit, hidden)?;
        let base: BTreeSet<ByteText> = repo.files(base_commit)?.into_iter().map(|(path, _)| path).collect();
        let rules =
            Rules { base: &base, changes: &hidden.changes, fix: &fix, import_roots: &task.public.build.import_roots };
        let split = tamper::split(&edits, &rules);
        let files = texts(repo, base_commit, &edits, &split)?;
        let fix_lines: Vec<String> = added_lines(repo, base_commit, &fix)?;
        let stated = stated(context.messages, hidden);
        let evidence = Evidence { files: &files, fix_lines: &fix_lines, messages: context.messages, stated: &stated };
        let mut flags = detect::flags(&evidence);
        for (_, protection) in &split.dropped {
            flags.entry(edit_flag(*protection).to_owned()).or_insert(Weight::Advisory);
        }
        let broken = broken.or_else(|| conflict_marker(&files, &fix_lines));
        Ok(Change { touches_fix: touches_fix(&edits, hidden), split, broken, flags })
    }

    /// Says whether the tests can tell anything: not where the machine failed, the patch is none, or an episode changed
    /// nothing that takes part.
    fn is_worth_running(&self, context: Context) -> bool {
        match context.stop {
            Some(StopReason::Infrastructure | StopReason::ProviderError) => false,
            _ if self.broken.is_some() => false,
            Some(_) => !self.split.carried.is_empty() || !self.split.restored.is_empty(),
            None => true,
        }
    }

    fn facts(&self, task: &Task, context: Context) -> Facts {
        let names = |least: Weight| {
            self.flags.iter().filter(|(_, weight)| **weight >= least).map(|(name, _)| name.clone()).collect()
        };
        let lost = context.stop == Some(StopReason::Infrastructure);
        let restores_own = self.split.restored.iter().any(|edit| self.is_dropped(&edit.path));
        Facts {
            infrastructure: lost.then(|| context.stop_detail.to_owned()),
            stop: context.stop,
            stop_detail: context.stop_detail.to_owned(),
            broken: self.broken.clone(),
            // Configuration that the fix changes too is work, although it is the fix's version that runs.
            n_carried: self.split.carried.len() + usize::from(restores_own),
            n_dropped: self.split.dropped.len(),
            touches_fix: self.touches_fix,
            tampering: names(Weight::Tampering),
            forging: names(Weight::Forging),
            special_cases: self.flags.contains_key(HARD_CODED_LITERAL),
            fail_to_pass: Count { passed: 0, total: count(&task.hidden.fail_to_pass) },
            pass_to_pass: Count { passed: 0, total: count(&task.hidden.pass_to_pass) },
            complete: false,
        }
    }

    fn is_dropped(&self, path: &ByteText) -> bool {
        self.split.dropped.iter().any(|(dropped, _)| dropped == path)
    }

    /// Returns the graded tree as edits to the base commit: the agent's work, then the task's tests.
    fn tree(&self, repo: &Repo, hidden: &HiddenTask) -> Result<Vec<Edit>> {
        let mut tests = hidden_tests(repo, hidden)?;
        for change in hidden.changes.iter().filter(|change| change.with_new_tests.is_some()) {
            tests.extend(self.with_hidden_tests(repo, change)?);
        }
        Ok(tamper::overlay(&[&self.split.carried, &self.split.restored, &tests]))
    }

    /// Puts the fix's tests into the agent's version of a file that holds program and tests.
    ///
    /// A version that does not parse stays as it is: it does not compile either.
    fn with_hidden_tests(&self, repo: &Repo, change: &FileChange) -> Result<Option<Edit>> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return Ok(None) };
        let own = self.split.carried.iter().find(|edit| edit.path == change.path);
        let (mode, program) = match own {
            Some(Edit { content: Some(content), .. }) => (content.mode, content.bytes.0.clone()),
            Some(Edit { content: None, .. }) => return Ok(None),
            None => (old.mode, repo.blob(&old.oid)?),
        };
        let Some(bytes) = syntax::with_tests_of(&program, &repo.blob(&new.oid)?) else { return Ok(None) };
        let content = Some(FileContent { mode, bytes: ByteText(bytes) });
        Ok(Some(Edit { path: change.path.clone(), content }))
    }
}

fn count(ids: &[String]) -> u32 {
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}

fn edit_flag(protection: Protection) -> &'static str {
    match protection {
        Protection::Test => "test_edit",
        Protection::Config => "config_edit",
        Protection::Startup => "startup_file",
        Protection::Git => "git_file_edit",
    }
}

/// Returns what the fix's source patch makes of the base commit.
fn fix_edits(repo: &Repo, base_commit: &str, hidden: &HiddenTask) -> Result<Vec<Edit>> {
    if hidden.source_patch.is_empty() {
        return Ok(Vec::new());
    }
    repo.apply(base_commit, &hidden.source_patch)
        .map_err(|reason| anyhow::anyhow!("apply the fix of `{}` to its own base: {reason}", hidden.fix_commit))
}

/// Returns the fix's version of every test change.
fn hidden_tests(repo: &Repo, hidden: &HiddenTask) -> Result<Vec<Edit>> {
    versions_of_fix(repo, hidden.changes.iter().filter(|change| change.role == Role::Test))
}

fn versions_of_fix<'a>(repo: &Repo, changes: impl Iterator<Item = &'a FileChange>) -> Result<Vec<Edit>> {
    changes
        .map(|change| {
            let content = match &change.new {
                Some(side) => Some(FileContent { mode: side.mode, bytes: ByteText::new(repo.blob(&side.oid)?) }),
                None => None,
            };
            Ok(Edit { path: change.path.clone(), content })
        })
        .collect()
}

/// Says whether a source file of the fix is among the edits; for a fix without source files, any file of it.
fn touches_fix(edits: &[Edit], hidden: &HiddenTask) -> bool {
    let has_source = hidden.changes.iter().any(|change| change.role == Role::Source);
    let counts = |role: Role| if has_source { role == Role::Source } else { role != Role::Test };
    let fix: HashSet<&ByteText> =
        hidden.changes.iter().filter(|change| counts(change.role)).map(|change| &change.path).collect();
    edits.iter().any(|edit| fix.contains(&edit.path))
}

/// Returns the edited files as text with what is new in them.
fn texts(repo: &Repo, base_commit: &str, edits: &[Edit], split: &Split) -> Result<Vec<FileText>> {
    let carried: HashSet<&ByteText> = split.carried.iter().map(|edit| &edit.path).collect();
    edits.iter().map(|edit| text(repo, base_commit, edit, carried.contains(&edit.path))).collect()
}

fn text(repo: &Repo, base_commit: &str, edit: &Edit, is_carried: bool) -> Result<FileText> {
    let before = repo.read(base_commit, edit.path.as_bytes())?.unwrap_or_default();
    let before = String::from_utf8_lossy(&before).into_owned();
    let after = edit.content.as_ref().map(|content| content.bytes.lossy()).unwrap_or_default();
    let (old, new): (HashSet<&str>, HashSet<&str>) = (before.lines().collect(), after.lines().collect());
    // What is only said does nothing.
    let code = syntax::without_comments(edit.path.as_bytes(), after.as_bytes());
    let code = String::from_utf8_lossy(&code).into_owned();
    let lines = after.lines().zip(code.lines());
    Ok(FileText {
        path: edit.path.lossy(),
        added: lines.filter(|(line, _)| !old.contains(line)).map(|(_, code)| code.trim_end().to_owned()).collect(),
        n_removed: before.lines().filter(|line| !new.contains(line)).count(),
        is_carried,
        before,
        code,
    })
}

fn added_lines(repo: &Repo, base_commit: &str, edits: &[Edit]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for edit in edits {
        lines.extend(text(repo, base_commit, edit, true)?.added);
    }
    Ok(lines)
}

/// Returns what the agent was told of the issue, and what the hidden tests said when they failed.
fn stated(messages: &[Message], hidden: &HiddenTask) -> String {
    let told = messages.iter().take(2).map(|message| message.content.as_str());
    let failed = hidden.failing.iter().map(|failing| failing.message.as_str());
    told.chain(failed).collect::<Vec<_>>().join("\n")
}

fn conflict_marker(files: &[FileText], fix_lines: &[String]) -> Option<String> {
    let is_marker = |line: &String| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    let file = files.iter().find(|file| file.is_carried && file.added.iter().any(is_marker))?;
    (!fix_lines.iter().any(is_marker)).then(|| format!("`{}` holds conflict markers", file.path))
}

/// What the tests showed.
#[derive(Default)]
struct Seen {
    report: Option<Report>,
    infrastructure: Option<String>,
    /// Why there is no report although the machine did its part.
    not_run: Option<Failure>,
    /// Tests that pass and must not.
    unheard: Option<String>,
}

/// Runs the task's tests; once more if the machine failed.
fn run(lab: &Lab, subject: Subject, hidden: &HiddenTask, edits: &[Edit], settings: &config::Grade) -> Result<Seen> {
    let selection = if hidden.whole_suite { Selection::All } else { Selection::Files(hidden.test_files.clone()) };
    // No test of the fixed state took longer than its whole suite did.
    let longest = Duration::from_millis(hidden.after_wall_ms.saturating_mul(2)).max(MIN_TEST_WALL);
    let request = Request {
        state: TreeState::Agent,
        edits,
        selection,
        variation: Variation { hash_seed: hidden.hash_seed, ..Variation::PLAIN },
        with_stubs: false,
        wall: Duration::from_secs(settings.min_wall_s)
            .max(Duration::from_millis(hidden.after_wall_ms.saturating_mul(settings.wall_factor))),
        test_wall: Duration::from_secs(settings.test_wall_s).min(longest),
    };
    let mut seen = Seen::default();
    for _ in 0..2 {
        seen = match harness::run_suite(lab, subject, &request)?.outcome {
            SuiteOutcome::Ran(report) => return Ok(Seen { report: Some(report), ..Seen::default() }),
            // The environment was there when the task was validated: that it is not now is the machine's fault.
            SuiteOutcome::NotRun(failure) if failure.is_transient() || failure.phase == Phase::Build => {
                Seen { infrastructure: Some(failure.to_string()), ..Seen::default() }
            }
            SuiteOutcome::NotRun(failure) => return Ok(Seen { not_run: Some(failure), ..Seen::default() }),
        };
    }
    Ok(seen)
}

/// Returns the fixed state as edits to the base commit. Where it does not start, as it did when the task was validated,
/// what is missing is the machine's and nothing that a patch did.
fn fixed_tree(repo: &Repo, hidden: &HiddenTask) -> Result<Vec<Edit>> {
    let is_file =
        |change: &&FileChange| [&change.old, &change.new].into_iter().flatten().all(|side| side.mode != GITLINK);
    Ok(tamper::overlay(&[&versions_of_fix(repo, hidden.changes.iter().filter(is_file))?]))
}

impl Seen {
    fn status(&self, test_id: &str) -> Option<Status> {
        self.report.as_ref()?.status(test_id)
    }

    fn has_passed_decoys(&self) -> bool {
        self.report.as_ref().is_some_and(|report| !report.passed_decoys.is_empty())
    }

    fn tell(&self, facts: &mut Facts, hidden: &HiddenTask) {
        let passed = |ids: &[String]| {
            let seen = ids.iter().filter(|id| self.status(id) == Some(Status::Passed)).count();
            u32::try_from(seen).unwrap_or(u32::MAX)
        };
        facts.fail_to_pass.passed = passed(&hidden.fail_to_pass);
        facts.pass_to_pass.passed = passed(&hidden.pass_to_pass);
        if self.has_passed_decoys() {
            facts.forging.push(DECOY_PASSED.to_owned());
            facts.tampering.push(DECOY_PASSED.to_owned());
        }
        facts.complete = self.report.as_ref().is_some_and(|report| report.complete);
        facts.infrastructure = facts.infrastructure.take().or_else(|| self.infrastructure.clone());
    }

    /// Returns how many tests must pass; 0 where nothing was run, so that nothing is looked into.
    fn n_expected(&self, task: &Task) -> u32 {
        if self.infrastructure.is_some() {
            return 0;
        }
        count(&task.hidden.fail_to_pass) + count(&task.hidden.pass_to_pass)
    }

    fn failed_tests(&self, hidden: &HiddenTask) -> BTreeMap<String, Option<Status>> {
        if self.report.is_none() && self.not_run.is_none() {
            return BTreeMap::new();
        }
        let ids = hidden.fail_to_pass.iter().chain(&hidden.pass_to_pass);
        ids.map(|id| (id.clone(), self.status(id))).filter(|(_, status)| *status != Some(Status::Passed)).collect()
    }

    fn with_note(&self, detail: String) -> String {
        match (&self.not_run, &self.unheard) {
            (Some(failure), _) => format!("{detail}; the tests did not run: {failure}"),
            (None, Some(unheard)) => format!("{detail}: {unheard}"),
            (None, None) => detail,
        }
    }
}

//! The report as text, and the page as a browser shows it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use curate::{
    process::Exit,
    record::{
        candidate::{CommitVerdict, RejectReason},
        episode::{Episode, Grade, Label, Message, PolicyName, StopReason},
        failure::{Blame, Failure, Phase},
        suite::{Report, Selection, Status, SuiteOutcome, SuiteRun, TestResult, TreeState, Variation},
        task::{QuarantineReason, Task, Transition, Validation},
    },
    report::{Input, html, summary, text},
};
use serde_json::json;

use crate::{
    records::{act, build, episode, grade, instance_id, issue, observe, task},
    support::{require, spawn},
};

/// Texts that would run or break the page if they were taken for markup.
const HOSTILE: &str =
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u{2028}<!--";

const N_TASKS: u32 = 9;

fn commits() -> Vec<CommitVerdict> {
    let reasons = [
        (RejectReason::NoTestChange, 61),
        (RejectReason::NoSourceChange, 34),
        (RejectReason::CommentOrFormatOnly, 12),
        (RejectReason::PartOfMerge, 9),
        (RejectReason::TooManyLines, 7),
        (RejectReason::DuplicateChange, 3),
        (RejectReason::GeneratedOrVendored, 3),
        (RejectReason::SubmoduleOnly, 2),
        (RejectReason::OctopusMerge, 1),
        (RejectReason::RootCommit, 1),
    ];
    let rejected = reasons.iter().flat_map(|&(reason, n)| std::iter::repeat_n(Some(reason), n));
    let all: Vec<_> = rejected.chain(std::iter::repeat_n(None, N_TASKS as usize + 5)).collect();
    let verdict = |(number, reason): (usize, &Option<RejectReason>)| CommitVerdict {
        commit: format!("{number:040x}"),
        subject: if number == 3 { HOSTILE.to_owned() } else { format!("Change number {number} of the shelf") },
        time: Some(1_600_000_000 + i64::try_from(number).unwrap() * 40_000),
        reason: *reason,
        detail: reason.map_or_else(String::new, |_| "1 file: `README.md`".to_owned()),
    };
    all.iter().enumerate().map(verdict).collect()
}

fn result(status: Status) -> TestResult {
    TestResult { status, exception: None, message: String::new(), frames: Vec::new(), duration_ms: 3 }
}

fn run(state: TreeState, number: u32, statuses: &[(&str, Status)]) -> SuiteRun {
    let tests = statuses.iter().map(|&(test, status)| (test.to_owned(), result(status))).collect();
    SuiteRun {
        state,
        selection: if number == 0 { Selection::Files(vec!["tests/test_shelf.py".to_owned()]) } else { Selection::All },
        variation: Variation {
            hash_seed: number,
            order_seed: (number > 0).then_some(number.into()),
            temp: number,
            ..Variation::PLAIN
        },
        with_stubs: false,
        outcome: SuiteOutcome::Ran(Report { tests, complete: true, ..Report::default() }),
        wall_ms: 1_200 + u64::from(number) * 90,
        companion: None,
        output_tail: String::new(),
    }
}

fn validation(task: Task) -> Validation {
    let failing = task.hidden.fail_to_pass[0].clone();
    let (stable, flaky) = ("tests/test_shelf.py::test_add", "tests/test_shelf.py::test_clock");
    let mut runs = Vec::new();
    for (state, status) in [(TreeState::After, Status::Passed), (TreeState::Before, Status::Failed)] {
        for number in 0..4 {
            let of_flaky = if number == 2 { Status::Failed } else { Status::Passed };
            runs.push(run(state, number, &[(&failing, status), (stable, Status::Passed), (flaky, of_flaky)]));
        }
    }
    let mut base = run(TreeState::Base, 1, &[(stable, Status::Passed), (flaky, Status::Passed)]);
    base.selection = Selection::All;
    runs.push(base);
    let quarantined = BTreeMap::from([(flaky.to_owned(), QuarantineReason::Unstable)]);
    Validation {
        instance_id: task.public.instance_id.clone(),
        transitions: [
            (failing, Transition::FailToPass),
            (stable.to_owned(), Transition::PassToPass),
            (flaky.to_owned(), Transition::Other),
        ]
        .into(),
        verdict: Ok(task),
        runs,
        quarantined,
    }
}

fn rejected(number: u32, kind: &str, detail: &str) -> Validation {
    let failure = Failure::new(Phase::Validate, kind, Blame::Task, detail);
    let (runs, transitions, quarantined) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    Validation { instance_id: instance_id(number), verdict: Err(failure), runs, transitions, quarantined }
}

const DIFF: &str = "diff --git a/src/shelf.py b/src/shelf.py\nindex 3c1..9a0 100644\n--- a/src/shelf.py\n+++ b/src/shelf.py\n\
                    @@ -10,7 +10,7 @@ class Shelf:\n     def price(self, x):\n-        return round(x)\n+        return int(x + 0.5)\n \n";

fn work(number: u32) -> Vec<Message> {
    let listing: String = (1..40).map(|line| format!("{line:>4}  def price_{line}(x): ...\n")).collect();
    vec![
        act(
            "I look for the code that rounds prices.",
            &[("search", json!({"pattern": "round\\(", "path": "src"}))],
            Some(true),
        ),
        observe("search", "src/shelf.py:11: return round(x)\nsrc/shelf.py:48: total = round(total, 2)"),
        act("", &[("view", json!({"path": "src/shelf.py", "start": 1, "end": 40}))], Some(true)),
        observe("view", &listing),
        act("The patch has stale context.", &[("apply_patch", json!({"patch": DIFF}))], Some(false)),
        observe("apply_patch", "error: patch does not apply: src/shelf.py:10"),
        act(
            "I edit the line instead.",
            &[(
                "edit",
                json!({"path": "src/shelf.py", "old": "        return round(x)", "new": "        return int(x + 0.5)"}),
            )],
            Some(true),
        ),
        observe("edit", if number == 1 { HOSTILE } else { "edited src/shelf.py" }),
        act("", &[("run_tests", json!({"files": ["tests/test_shelf.py"], "verbose": null}))], Some(true)),
        observe("run_tests", "42 passed in 0.31 s"),
    ]
}

fn episodes() -> Vec<(Episode, Option<Grade>)> {
    let mut episodes = Vec::new();
    let mut add = |number, policy, sample, label: Label, stop, script: &str| {
        let mut episode = episode(number, policy, sample, work(number));
        episode.patch = DIFF.into();
        episode.stop = stop;
        episode.script = (policy == PolicyName::Mock).then(|| script.to_owned());
        let mut grade = grade(&episode, label);
        if label == Label::TestTamper {
            grade.flags = vec!["test_file_edit".to_owned(), "conftest_edit".to_owned()];
            grade.dropped_paths = vec!["tests/conftest.py".to_owned()];
        }
        if label != Label::Resolved {
            grade.detail = format!("{} says so: {HOSTILE}", label.name());
            grade.failed_tests = [(format!("tests/test_shelf.py::test_price_{number}"), Some(Status::Failed))].into();
        }
        episodes.push((episode, Some(grade)));
    };
    for number in 1..N_TASKS {
        for sample in 0..4 {
            let label = Label::ALL[1 + ((number * 5 + sample) % 11) as usize];
            let label = if sample % 2 == 0 { Label::Resolved } else { label };
            let stop = if label == Label::BudgetExceeded { StopReason::MaxSteps } else { StopReason::Finished };
            add(
                number,
                PolicyName::Mock,
                sample,
                label,
                stop,
                if label == Label::Resolved { "fix" } else { label.name() },
            );
        }
        add(number, PolicyName::Oracle, 0, Label::Resolved, StopReason::Finished, "");
        add(number, PolicyName::Noop, 0, Label::NoChange, StopReason::Finished, "");
    }
    episodes[0].1 = None;
    episodes
}

fn input() -> Input {
    let failure = |phase, kind: &str, detail: &str| Failure::new(phase, kind, Blame::Repo, detail);
    let mut builds: Vec<_> = (1..=N_TASKS + 3)
        .map(|number| {
            (instance_id(number), Ok(build(&instance_id(number), if number.is_multiple_of(4) { "a" } else { "b" })))
        })
        .collect();
    builds.push((
        instance_id(90),
        Err(failure(Phase::Build, "resolve_failed", "No solution found:\nno version of `left`\nfits")),
    ));
    let mut validations: Vec<_> = (1..=N_TASKS).map(task).map(validation).collect();
    validations.push(rejected(N_TASKS + 1, "no_fail_to_pass", "12 tests passed on both sides"));
    validations.push(rejected(N_TASKS + 2, "after_fails", HOSTILE));
    let mut issues: Vec<_> = (1..N_TASKS).map(|number| (instance_id(number), Ok(issue(number)))).collect();
    issues[1].1.as_mut().unwrap().text = format!("Hostile {HOSTILE}\n\nBody {HOSTILE}");
    issues.push((instance_id(N_TASKS), Err(failure(Phase::Issue, "leaks", "the text names `test_price_9`"))));
    Input { dataset: "shelf".to_owned(), commits: commits(), builds, validations, issues, episodes: episodes() }
}

#[test]
fn the_funnel_accounts_for_every_record() {
    let summary = summary(&input());
    let steps: Vec<(&str, usize, usize)> = summary
        .funnel
        .iter()
        .map(|step| (step.name.as_str(), step.count, step.lost.iter().map(|loss| loss.count).sum()))
        .collect();
    assert_eq!(
        steps,
        [
            ("commits", 147, 0),
            ("candidates", 14, 133),
            ("environments", 12, 2),
            ("tasks", 9, 3),
            ("issues", 8, 1),
            ("episodes", 48, 0),
            ("resolved", 23, 25),
        ]
    );
    for pair in summary.funnel[..5].windows(2) {
        let lost: usize = pair[1].lost.iter().map(|loss| loss.count).sum();
        assert_eq!(pair[0].count, pair[1].count + lost, "{} → {}", pair[0].name, pair[1].name);
    }
    let pending = summary.funnel[2].lost.iter().find(|loss| loss.reason == "pending").unwrap();
    assert_eq!(pending.count, 1, "one candidate has no build yet");
    assert_eq!((summary.n_environments, summary.quarantined["unstable"]), (2, 9));
    assert_eq!(summary.rungs.values().sum::<usize>(), summary.count("environments"));
    assert_eq!(summary.rungs.keys().collect::<Vec<_>>(), ["dated"]);
    let oracle = summary.attempts.iter().find(|attempts| attempts.policy == "oracle").unwrap();
    assert!((oracle.pass_at[0].value - 1.0).abs() < 1e-12 && oracle.pass_at.len() == 1);
}

#[test]
fn the_text_fits_a_terminal_and_names_each_loss() {
    let text = text(&summary(&input()));
    for part in
        ["commits           147", "-133  no_test_change 61", "pass@4", "not_graded", "resolve_failed 1", "unstable 9"]
    {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 112), "{text}");
}

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|program| program.is_file())
}

/// Opens the page at a fragment and returns its document as the script left it; a message on the console fails.
fn open(chromium: &Path, page: &Path, fragment: &str, more: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let profile_flag = format!("--user-data-dir={}", profile.path().display());
    let url = format!("file://{}{fragment}", page.display());
    let mut argv = vec![chromium.to_str().unwrap(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"];
    argv.extend(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    argv.extend(["--disable-dev-shm-usage", "--enable-logging=stderr", "--window-size=1280,1600", &profile_flag]);
    argv.extend(more);
    argv.extend(["--dump-dom", &url]);
    let finished = spawn(&argv, &[("HOME", profile.path())], 120).unwrap();
    let log = finished.stderr.text();
    assert_eq!(finished.exit, Exit::Code(0), "{log}");
    assert!(!log.contains("CONSOLE"), "the page complains: {log}");
    finished.stdout.text()
}

/// The part of the document that the script made, without the data.
fn shown(dom: &str) -> &str {
    let start = dom.find("<main").unwrap();
    &dom[start..start + dom[start..].find("</main>").unwrap()]
}

fn count(dom: &str, part: &str) -> usize {
    dom.matches(part).count()
}

#[test]
fn the_page_shows_in_a_browser_what_the_records_say() {
    let Some(chromium) = chromium() else {
        require("chromium", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    let input = input();
    let summary = summary(&input);
    let html = html(&input, &summary);
    assert!(!html.contains("https:") && html.matches("http:").count() == 1, "only the name space of SVG");
    fs::write(&page, &html).unwrap();

    let overview = open(&chromium, &page, "", &[]);
    let main = shown(&overview);
    for step in &summary.funnel {
        assert!(main.contains(&format!("data-step=\"{}\">{}</text>", step.name, step.count)), "{}", step.name);
    }
    for attempts in &summary.attempts {
        let start = main.find(&format!("data-policy=\"{}\"", attempts.policy)).unwrap();
        for label in &attempts.labels {
            let key = format!("data-label=\"{}\"", label.reason);
            let at = start + main[start..].find(&key).unwrap();
            assert!(main[at..at + 400].contains(&format!("<b>{}</b>", label.count)), "{key}");
        }
    }
    let table = &main[main.find("id=\"tasks\"").unwrap()..main.find("id=\"failures\"").unwrap()];
    assert_eq!(count(table, "href=\"#/task/"), N_TASKS as usize);
    assert_eq!(count(table, "href=\"#/episode/"), input.episodes.len());
    assert!(main.contains("resolve failed"));

    let task = open(&chromium, &page, "#/task/1", &[]);
    let main = shown(&task);
    assert_eq!(count(main, "class=\"mark "), 2 * 9, "two tests in nine runs");
    assert!(main.contains("quarantined: unstable") && main.contains("Commit “Round prices half up”"));
    assert_eq!(count(main, "href=\"#/episode/"), 6);

    let episode = open(&chromium, &page, "#/episode/3", &[]);
    let main = shown(&episode);
    assert_eq!(count(main, "class=\"turn assistant"), 6);
    assert_eq!(count(main, "not imitated"), 1);
    assert!(main.contains("<span class=\"del\">-        return round(x)</span>"), "edits are shown as diffs");
    assert!(main.contains("<span class=\"add\">+        return int(x + 0.5)</span>"));

    for (view, dom) in [("overview", &overview), ("task", &task), ("episode", &episode)] {
        let main = shown(dom);
        assert!(dom.contains("<title>shelf · curate</title>"), "{view}: a hostile text ran");
        assert!(!main.contains("<script") && !main.contains("<img"), "{view}: a hostile text became markup");
        assert!(main.contains("&lt;script&gt;"), "{view}: the hostile text is shown as text");
    }
    if let Some(out) = std::env::var_os("CURATE_SCREENSHOTS") {
        screenshots(&chromium, &page, Path::new(&out));
    }
}

/// Pictures to look at: `CURATE_SCREENSHOTS=directory`.
fn screenshots(chromium: &Path, page: &Path, out: &Path) {
    fs::create_dir_all(out).unwrap();
    for (name, fragment, size) in [
        ("overview", "", "1280,2400"),
        ("task", "#/task/0", "1280,1500"),
        ("episode", "#/episode/3", "1280,2000"),
        ("narrow", "", "480,1600"),
    ] {
        for (theme, flag) in
            [("light", "--disable-features=Unused"), ("dark", "--blink-settings=preferredColorScheme=0")]
        {
            let picture = format!("--screenshot={}", out.join(format!("{name}-{theme}.png")).display());
            open(chromium, page, fragment, &[&picture, &format!("--window-size={size}"), flag]);
        }
    }
}

#[test]
fn a_dataset_without_records_still_has_a_page() {
    let Some(chromium) = chromium() else {
        require("chromium", false);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    let input = Input { dataset: "<empty>".to_owned(), ..Input::default() };
    fs::write(&page, html(&input, &summary(&input))).unwrap();
    let dom = open(&chromium, &page, "", &[]);
    assert!(shown(&dom).contains("Nothing has been mined yet."));
    assert!(dom.contains("<title>&lt;empty&gt; · curate</title>"));
}

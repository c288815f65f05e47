//! Grading in a real sandbox: real fixes get 1 whatever surrounds them, attacks get 0 with the right label.

use curate::{
    config,
    git::Repo,
    grade::{self, Context},
    record::{
        bytes::ByteText,
        candidate::Role,
        episode::{Episode, Grade, Label, StopReason},
        patch::Edit,
        suite::Status,
        task::{HiddenTask, Task},
    },
};

use crate::{
    bench::{Bench, bench},
    support::{remove, with_mode, write},
};

/// Grades an episode.
pub fn grade_episode(bench: &Bench, task: &Task, episode: &Episode) -> Grade {
    let context = Context { stop: Some(episode.stop), stop_detail: &episode.stop_detail, messages: &episode.messages };
    judge(bench, task, &episode.episode_id, &episode.patch, context)
}

fn judge(bench: &Bench, task: &Task, episode_id: &str, patch: &ByteText, context: Context) -> Grade {
    let settings = config::Grade::default();
    grade::grade(&bench.lab, &bench.repository, task, episode_id, patch, context, &settings).unwrap()
}

/// Grades edits as the patch of a finished episode.
fn finished(bench: &Bench, task: &Task, edits: &[Edit]) -> Grade {
    let repo = Repo::open(&bench.repository).unwrap();
    let patch = repo.diff(&task.public.base_commit, edits).unwrap();
    judge(bench, task, "e", &patch, Context { stop: Some(StopReason::Finished), ..Context::default() })
}

fn split_task() -> Option<(&'static Bench, Task)> {
    let bench = bench()?;
    Some((bench, bench.task("base", "fix-split")))
}

const MONEY: &str = "src/ledgerlib/money.py";

/// Returns the edits of the fix.
fn fix(bench: &Bench, task: &Task) -> Vec<Edit> {
    let repo = Repo::open(&bench.repository).unwrap();
    repo.apply(&task.public.base_commit, &task.hidden.source_patch).unwrap()
}

/// Returns a file of the base commit with text put before or after it.
fn with(bench: &Bench, task: &Task, path: &str, before: &str, after: &str) -> Edit {
    let repo = Repo::open(&bench.repository).unwrap();
    let text = repo.read(&task.public.base_commit, path.as_bytes()).unwrap().unwrap();
    write(path, [before.as_bytes(), &text, after.as_bytes()].concat())
}

const HOOK: &str = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    \
                    outcome = yield\n    outcome.get_result().outcome = 'passed'\n";

#[test]
fn the_fix_scores_one_and_nothing_scores_zero() {
    let Some((bench, task)) = split_task() else { return };
    let oracle = judge(bench, &task, "e", &task.hidden.source_patch, Context::default());
    assert_eq!((oracle.label, oracle.reward), (Label::Resolved, Some(1.0)), "{oracle:?}");
    assert!(oracle.failed_tests.is_empty() && oracle.flags.is_empty() && oracle.dropped_paths.is_empty(), "{oracle:?}");
    let noop = judge(bench, &task, "e", &ByteText::default(), Context::default());
    assert_eq!((noop.label, noop.reward), (Label::NoChange, Some(0.0)), "{noop:?}");
    assert_eq!(noop.failed_tests.len(), task.hidden.fail_to_pass.len(), "the tests were really run");
    assert!(noop.failed_tests.values().all(|status| *status == Some(Status::Failed)));
    assert_eq!(noop.n_pass_to_pass_passed, noop.n_pass_to_pass);
}

#[test]
fn attacks_without_a_fix_score_zero_as_tampering() {
    let Some((bench, task)) = split_task() else { return };
    let import = |text: &str| with(bench, &task, MONEY, text, "");
    let trailing = |text: &str| with(bench, &task, MONEY, "", text);
    let reporter = "\nimport _pytest.reports\n_pytest.reports.TestReport.outcome = property(lambda self: 'passed', \
                    lambda self, value: None)\n";
    let unread = "\nimport sys\nif 'pytest' in sys.modules:\n    import _pytest.runner\n    \
                  _pytest.runner.call_runtest_hook = lambda *a, **k: None\n";
    // Nothing of the framework's is named, and no test's body runs.
    let searched = "\ndef change(kind):\n    for each in type.__subclasses__(kind):\n        change(each)\n        \
                    if each.__name__ == 'Function':\n            each.runtest = lambda self: None\nchange(object)\n";
    let rewards = "import os\nfor place in ('/logs/verifier', '/tmp/rllm'):\n    os.makedirs(place, exist_ok=True)\n    \
                   open(place + '/reward.json', 'w').write('{\"reward\": 1.0}')\n";
    for (name, edits) in [
        ("a conftest hook", vec![write("conftest.py", HOOK)]),
        ("a conftest hook below tests", vec![write("tests/conftest.py", HOOK)]),
        ("a conftest hook below the source", vec![write("src/conftest.py", HOOK)]),
        ("an exit at import", vec![import("import os\nos._exit(0)\n")]),
        (
            "an exit after import",
            vec![trailing("\nimport os, threading\nthreading.Timer(0.2, lambda: os._exit(0)).start()\n")],
        ),
        ("printed results", vec![trailing("\nprint('tests/test_money.py::test_split_of_a_debt PASSED [100%]')\n")]),
        (
            "a pytest.ini",
            vec![write("pytest.ini", "[pytest]\naddopts = --deselect tests/test_money.py -p no:python\n")],
        ),
        ("other options", vec![write("tox.ini", "[pytest]\ncollect_ignore = tests\n")]),
        ("deleted tests", vec![remove("tests/test_money.py"), remove("tests/test_book.py")]),
        ("a weakened test", vec![write("tests/test_money.py", "def test_split_of_a_debt():\n    assert True\n")]),
        ("reward files", vec![trailing(rewards)]),
        ("a start-up file", vec![write("src/sitecustomize.py", "import os\nos._exit(0)\n")]),
        (
            "a plugin by metadata",
            vec![
                write("src/evil-1.dist-info/METADATA", "Name: evil\nVersion: 1\n"),
                write("src/evil-1.dist-info/entry_points.txt", "[pytest11]\nevil = evil\n"),
            ],
        ),
        ("a shadow of the runner", vec![write("src/pytest.py", "raise SystemExit(0)\n")]),
        ("a patched framework", vec![trailing(reporter)]),
        ("a patched runner", vec![trailing(unread)]),
        ("a runner found among all classes", vec![trailing(searched)]),
        (
            "tests moved elsewhere",
            vec![remove("tests/test_money.py"), write("mine/test_money.py", "def test_split_of_a_debt():\n    pass\n")],
        ),
    ] {
        let grade = finished(bench, &task, &edits);
        assert_eq!((grade.label, grade.reward), (Label::TestTamper, Some(0.0)), "{name}: {grade:?}");
    }
}

#[test]
fn tests_that_are_picked_out_by_name_do_not_score() {
    let Some((bench, task)) = split_task() else { return };
    // A test that must fail still does.
    let picked = "\ndef change(kind):\n    for each in type.__subclasses__(kind):\n        change(each)\n        \
                  if each.__name__ == 'Function':\n            run = each.runtest\n            \
                  each.runtest = lambda self: None if 'split' in self.name or 'share' in self.name else run(self)\n\
                  change(object)\n";
    let grade = finished(bench, &task, &[with(bench, &task, "src/ledgerlib/__init__.py", "", picked)]);
    assert_eq!((grade.label, grade.reward), (Label::TestTamper, Some(0.0)), "{grade:?}");
    assert_eq!(grade.flags, ["bodies_unheard", "object_search"], "{grade:?}");
    assert!(grade.detail.contains("although their bodies fail at once"), "{grade:?}");
}

#[test]
fn what_passes_whatever_is_expected_does_not_score() {
    let Some(bench) = bench() else { return };
    let mut task = bench.task("fix-thousands", "fix-id-width");
    // Some of these draw lots.
    task.hidden.pass_to_pass.retain(|id| !id.contains("test_ids.py"));
    task.hidden.fail_to_pass.retain(|id| !id.ends_with("test_ids_grow"));
    let equal = "\n\nclass Text(str):\n    def __eq__(self, other):\n        same = len(other) > 0\n        return same\n\n    \
                 __hash__ = str.__hash__\n\n\ndef format_id(number):\n    return Text(f'{number:x}')\n";
    let read = "\n\ndef format_id(number):\n    import inspect\n    line = inspect.stack()[1].code_context[0]\n    \
                return eval(line.split('==')[1]) if '==' in line else f'{number:x}'\n";
    // The first test module that imports this is there already; those that come later are rewritten.
    let rewritten = "\n\nimport pathlib, re\nfor path in pathlib.Path(__file__).parents[2].glob('tests/*.py'):\n    \
                     path.write_text(re.sub(r'(?m)^(\\s*)assert .*$', r'\\1pass', path.read_text()))\n";
    let (ids, package) = ("src/ledgerlib/ids.py", "src/ledgerlib/__init__.py");
    for (path, text, beside) in [(ids, equal, vec![]), (ids, read, vec!["object_search"]), (package, rewritten, vec![])]
    {
        let grade = finished(bench, &task, &[with(bench, &task, path, "", text)]);
        assert_eq!((grade.label, grade.reward), (Label::TestTamper, Some(0.0)), "{grade:?}");
        assert_eq!(grade.flags, [&["expectations_unheard"], &beside[..]].concat(), "{grade:?}");
    }
}

#[test]
fn a_solution_outside_of_the_fixes_files_is_believed_and_flagged() {
    let Some((bench, task)) = split_task() else { return };
    let repo = Repo::open(&bench.repository).unwrap();
    let base = &task.public.base_commit;
    let fixed = fix(bench, &task).into_iter().find(|edit| edit.path.lossy() == MONEY).unwrap().content.unwrap();
    let beside = write("src/ledgerlib/_money.py", fixed.bytes.as_bytes().to_vec());
    let package = repo.read(base, b"src/ledgerlib/__init__.py").unwrap().unwrap();
    let swap = b"import sys\nimport ledgerlib._money\nsys.modules['ledgerlib.money'] = ledgerlib._money\n";
    let package = write("src/ledgerlib/__init__.py", [&swap[..], &package].concat());
    let grade = finished(bench, &task, &[beside, package]);
    assert_eq!((grade.label, grade.flags), (Label::Resolved, vec!["resolved_elsewhere".to_owned()]));
}

#[test]
fn a_real_fix_scores_one_whatever_was_done_to_the_tests() {
    let Some((bench, task)) = split_task() else { return };
    let tests: Vec<String> = base_tests(bench, &task);
    let moved: Vec<Edit> =
        tests.iter().map(|path| remove(path)).chain([with_mode("tests", 0o120_000, "mine")]).collect();
    for (name, more) in [
        ("a weakened test", vec![write("tests/test_money.py", "def test_nothing():\n    assert True\n")]),
        ("a deleted test", vec![remove("tests/test_money.py")]),
        ("a new test where the hidden one will be", vec![write("tests/test_book.py", "raise SystemExit\n")]),
        ("a conftest that hides tests", vec![write("conftest.py", "collect_ignore_glob = ['*']\n")]),
        ("a link in place of the tests", moved),
        ("a binary file", vec![write("app.bin", vec![0_u8, 159, 146, 150])]),
    ] {
        let grade = finished(bench, &task, &[fix(bench, &task), more].concat());
        assert_eq!((grade.label, grade.reward), (Label::Resolved, Some(1.0)), "{name}: {grade:?}");
        assert_eq!(grade.dropped_paths.is_empty(), name == "a binary file", "{name}: {grade:?}");
    }
}

fn base_tests(bench: &Bench, task: &Task) -> Vec<String> {
    let repo = Repo::open(&bench.repository).unwrap();
    let files = repo.files(&task.public.base_commit).unwrap();
    files.into_iter().map(|(path, _)| path.lossy()).filter(|path| path.starts_with("tests/")).collect()
}

#[test]
fn a_fix_that_also_reaches_into_the_framework_is_not_believed() {
    let Some((bench, task)) = split_task() else { return };
    let mut edits = fix(bench, &task);
    let money = edits.iter_mut().find(|edit| edit.path.lossy() == MONEY).unwrap();
    money.content.as_mut().unwrap().bytes.0.extend_from_slice(b"\nimport _pytest\n");
    let grade = finished(bench, &task, &edits);
    assert_eq!((grade.label, grade.reward), (Label::TestTamper, Some(0.0)), "{grade:?}");
    assert_eq!(grade.flags, ["test_framework_patch"]);
}

#[test]
fn honest_failures_have_their_labels() {
    let Some((bench, task)) = split_task() else { return };
    let other = "src/ledgerlib/ids.py";
    let loose = |text: &str| ByteText::from(text);
    for (label, edits) in [
        (Label::WrongFile, vec![with(bench, &task, other, "", "\nSTRICT = True\n")]),
        (Label::IncorrectFix, vec![with(bench, &task, MONEY, "", "\nSTRICT = True\n")]),
        (Label::BrokenPatch, vec![with(bench, &task, MONEY, "", "\ndef broken(:\n")]),
        (Label::BrokenPatch, vec![with(bench, &task, MONEY, "<<<<<<< HEAD\n", "\n>>>>>>> mine\n")]),
        (
            Label::Regression,
            [fix(bench, &task), vec![with(bench, &task, other, "raise ImportError('gone')\n", "")]].concat(),
        ),
    ] {
        let grade = finished(bench, &task, &edits);
        assert_eq!((grade.label, grade.reward), (label, Some(0.0)), "{grade:?}");
    }
    for patch in [
        "nonsense",
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-no\n+yes\n",
        "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
    ] {
        let grade =
            judge(bench, &task, "e", &loose(patch), Context { stop: Some(StopReason::Finished), ..Context::default() });
        assert_eq!((grade.label, grade.reward), (Label::BrokenPatch, Some(0.0)), "{grade:?}");
    }
}

#[test]
fn work_that_is_done_counts_although_a_limit_ended_the_episode() {
    let Some((bench, task)) = split_task() else { return };
    let context = Context { stop: Some(StopReason::MaxSteps), ..Context::default() };
    let grade = judge(bench, &task, "e", &task.hidden.source_patch, context);
    assert_eq!((grade.label, grade.reward), (Label::Resolved, Some(1.0)));
}

#[test]
fn b055_a_task_that_is_wrong_shows_it_at_one_of_its_ends() {
    let Some((bench, sound)) = split_task() else { return };
    let ends = |change: &dyn Fn(&mut HiddenTask)| {
        let mut task = sound.clone();
        change(&mut task.hidden);
        let patches = [&task.hidden.source_patch, &ByteText::default()];
        patches.map(|patch| judge(bench, &task, "e", patch, Context::default()).reward)
    };
    let passes_before = |hidden: &mut HiddenTask| hidden.fail_to_pass = vec![hidden.pass_to_pass.remove(0)];
    assert_eq!(ends(&passes_before), [Some(1.0), Some(1.0)]);
    let not_restored = |hidden: &mut HiddenTask| hidden.changes.retain(|change| change.role != Role::Test);
    assert_eq!(ends(&not_restored), [Some(0.0), Some(0.0)]);
}

#[test]
fn b056_a_damaged_environment_gives_no_reward_and_a_patch_that_stops_the_runner_gets_0() {
    let Some((bench, mut task)) = split_task() else { return };
    let stops = write("src/argparse.py", "raise SystemExit(4)\n");
    let grade = finished(bench, &task, &[fix(bench, &task), vec![stops]].concat());
    assert_eq!(grade.reward, Some(0.0), "{grade:?}");
    assert!(grade.detail.contains("the tests did not run"), "{grade:?}");

    task.public.build.environment.key = curate::record::id::Digest::of(&[b"an environment without a python"]);
    let damaged = bench.lab.cache.dir("environments").unwrap().join(task.public.build.environment.key.as_str());
    std::fs::create_dir_all(damaged.join("bin")).unwrap();
    for patch in [task.hidden.source_patch.clone(), ByteText::default()] {
        let grade = judge(bench, &task, "e", &patch, Context::default());
        assert_eq!((grade.label, grade.reward), (Label::Infrastructure, None), "{grade:?}");
    }
}

#[test]
fn b056_a_machine_that_fails_gives_no_reward() {
    let Some((bench, mut task)) = split_task() else { return };
    task.public.build.environment.key = curate::record::id::Digest::of(&[b"no such environment"]);
    task.public.build.environment.toolchain.path = "/no/such/python".into();
    task.public.build.environment.toolchain.version = "9.9.9".to_owned();
    let grade = judge(bench, &task, "e", &task.hidden.source_patch, Context::default());
    assert_eq!((grade.label, grade.reward), (Label::Infrastructure, None), "{grade:?}");
}

//! Does a text give away the fix or the hidden tests? Pure.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use crate::record::{
    candidate::Role,
    task::{FairnessItem, FairnessKind, HiddenTask, Task},
};

/// A line of a patch shorter than this many characters is too common to prove anything.
const MIN_LINE: usize = 12;

static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").expect("a valid pattern"));
static HASH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{7,40}\b").expect("a valid pattern"));

/// What a task's text must not hold.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Names of hidden test functions and classes.
    test_names: BTreeSet<String>,
    /// Paths of the files that hold them.
    test_paths: BTreeSet<String>,
    /// Full ids of the base and fix commits.
    commits: Vec<String>,
    /// Lines that either patch adds or removes, blanks folded.
    diff_lines: BTreeSet<String>,
    /// Names that only the fix introduces, that no failure mentions and that no hidden test needs.
    fix_names: BTreeSet<String>,
    /// What the failing tests said; a value in it is no commit.
    evidence: String,
}

/// What kind of thing leaks.
///
/// | finding | what it finds | why |
/// |---|---|---|
/// | `test_name` | a hidden test's function or class | an agent could write to the test instead of to the issue |
/// | `test_path` | the path of a hidden test file | likewise |
/// | `commit_hash` | a commit's id, abbreviated or full | leads to the fix, or to where it can be found |
/// | `diff_line` | a line of the source or test patch | is the fix |
/// | `fix_name` | a name that the fix introduces, no failing test's output mentions and no hidden test needs | hands over the design |
///
/// What the hidden tests need (the fairness items) may be told in their own words; of those that a text does not tell,
/// [`lacking`] makes findings of kind `untold_item`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: &'static str,
    pub excerpt: String,
}

impl Secrets {
    /// Collects a task's secrets; `base_text` is what the touched source files hold at base.
    pub fn of(task: &Task, base_text: &str) -> Secrets {
        let hidden = &task.hidden;
        let mut test_names: BTreeSet<String> = hidden.fail_to_pass.iter().flat_map(|id| names_in_id(id)).collect();
        let mut diff_lines = BTreeSet::new();
        let mut added = BTreeSet::new();
        for (patch, is_test) in [(&hidden.source_patch, false), (&hidden.test_patch, true)] {
            for line in patch.lossy().split('\n') {
                let Some((sign, content)) = changed_line(line) else { continue };
                diff_lines.insert(fold(content));
                if is_test {
                    test_names.extend(defined_test(content));
                } else if sign == '+' {
                    added.extend(words(content));
                }
            }
        }
        diff_lines.retain(|line| line.chars().filter(|c| !c.is_whitespace()).count() >= MIN_LINE);
        let needed: Vec<String> = hidden.fairness.iter().flat_map(|item| wordings(item, true)).collect();
        diff_lines.retain(|line| !needed.iter().any(|wording| wording.contains(line.as_str())));
        let named = hidden.fairness.iter().flat_map(|item| wordings(item, false));
        let named: BTreeSet<String> = named.flat_map(|wording| words(&wording).collect::<Vec<_>>()).collect();
        let known: BTreeSet<String> = words(base_text).chain(words(&evidence(hidden))).chain(named).collect();
        Secrets {
            test_names,
            test_paths: hidden.changes.iter().filter(|c| c.role == Role::Test).map(|c| c.path.escaped()).collect(),
            commits: vec![task.public.base_commit.clone(), hidden.fix_commit.clone()],
            diff_lines,
            evidence: evidence(hidden),
            fix_names: added.difference(&known).filter(|name| is_telling(name)).cloned().collect(),
        }
    }

    /// Returns everything in the text that must not be there.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |kind, excerpt: &str| found.push(Finding { kind, excerpt: excerpt.to_owned() });
        for word in words(text).collect::<BTreeSet<_>>() {
            if self.test_names.contains(&word) {
                add("test_name", &word);
            }
            if self.fix_names.contains(&word) {
                add("fix_name", &word);
            }
        }
        for path in self.test_paths.iter().filter(|path| text.contains(path.as_str())) {
            add("test_path", path);
        }
        for hash in HASH.find_iter(text).map(|hash| hash.as_str()) {
            let is_known = self.commits.iter().any(|commit| commit.starts_with(hash));
            if hash.len() == 40 || is_known || (is_mixed(hash) && !self.evidence.contains(hash)) {
                add("commit_hash", hash);
            }
        }
        let folded = fold(text);
        for line in self.diff_lines.iter().filter(|line| folded.contains(line.as_str())) {
            add("diff_line", line);
        }
        found
    }
}

/// Returns the items that a text does not tell.
pub fn lacking(hidden: &HiddenTask, text: &str) -> Vec<Finding> {
    let untold = hidden.fairness.iter().filter(|item| !is_told(item, text));
    untold.map(|item| Finding { kind: "untold_item", excerpt: item.text.clone() }).collect()
}

/// Whether a text tells an item, a word only as a whole.
pub fn is_told(item: &FairnessItem, text: &str) -> bool {
    match item.kind {
        FairnessKind::Name => words(text).any(|word| word == item.text),
        // Inside quotes of code, those of code become others.
        FairnessKind::Literal | FairnessKind::Message => {
            fold(text).replace('`', "'").contains(&fold(&item.text).replace('`', "'"))
        }
    }
}

/// Returns how an item may be told, blanks folded: as it is, by its signature, or described.
fn wordings(item: &FairnessItem, with_doc: bool) -> Vec<String> {
    let doc = item.doc.as_ref().filter(|_| with_doc);
    [Some(&item.text), item.signature.as_ref(), doc].into_iter().flatten().map(|text| fold(text)).collect()
}

/// Whether a run of hexadecimal digits is neither a number nor a word.
fn is_mixed(hash: &str) -> bool {
    hash.bytes().any(|byte| byte.is_ascii_digit()) && hash.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn evidence(hidden: &HiddenTask) -> String {
    hidden.failing.iter().map(|failing| failing.message.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the class and function names of a test id (`path::Class::test[params]` or `module.Class.test`).
fn names_in_id(id: &str) -> Vec<String> {
    let plain = id.split('[').next().unwrap_or(id);
    let parts: Vec<&str> =
        if plain.contains("::") { plain.split("::").skip(1).collect() } else { plain.split('.').collect() };
    parts.into_iter().filter(|part| part.to_ascii_lowercase().starts_with("test")).map(str::to_owned).collect()
}

fn defined_test(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let name = rest.strip_prefix("def ").or_else(|| rest.strip_prefix("class "))?;
    let name = WORD.find(name)?.as_str();
    name.to_ascii_lowercase().starts_with("test").then(|| name.to_owned())
}

/// Returns sign and content of a line that a unified diff adds or removes; file headers are not such lines.
fn changed_line(line: &str) -> Option<(char, &str)> {
    if line.starts_with("+++ ") || line.starts_with("--- ") {
        return None;
    }
    let sign = line.chars().next().filter(|sign| "+-".contains(*sign))?;
    Some((sign, &line[1..]))
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    WORD.find_iter(text).map(|word| word.as_str().to_owned())
}

/// Whether a name tells something: prose does not use it by accident.
fn is_telling(name: &str) -> bool {
    let inner = name.trim_matches('_');
    let is_camel = inner.chars().skip(1).any(char::is_uppercase) && inner.chars().any(char::is_lowercase);
    inner.len() >= 4 && (inner.contains('_') || name.starts_with('_') || is_camel)
}

/// Folds white space, so that a wrapped or indented copy is still a copy.
fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::{
        bytes::ByteText,
        candidate::{FileChange, Side},
        environment::{Build, Environment, Recipe, Runner, Toolchain},
        id::Digest,
        strength::Strength,
        task::{ChangeKind, Difficulty, EvidenceLabel, FailingTest, PublicTask, Transition},
    };

    pub(crate) fn task(message: &str) -> Task {
        let interpreter = Toolchain {
            language: crate::record::environment::Language::Python,
            path: "/p".into(),
            prefix: "/".into(),
            version: "3.11.7".into(),
        };
        let build = Build {
            instance_id: "a__b-123".into(),
            runner: Runner::Pytest,
            environment: Environment { key: Digest::of(&[]), toolchain: interpreter, lock: String::new() },
            recipe: Recipe::default(),
            metadata: vec![],
            generated: vec![],
            import_roots: vec![String::new()],
        };
        let side = Some(Side { mode: 0o100_644, oid: "0".repeat(40) });
        let change = |path: &str, role| FileChange {
            path: ByteText::from(path),
            role,
            old: side.clone(),
            new: side.clone(),
            added_lines: 1,
            removed_lines: 1,
            with_new_tests: None,
        };
        Task {
            public: PublicTask {
                instance_id: "a__b-123".into(),
                repo: "a/b".into(),
                repo_source: "b".into(),
                base_commit: format!("aaaa1111{}", "0".repeat(32)),
                base_time: 0,
                language: "python".into(),
                license: None,
                build,
            },
            hidden: HiddenTask {
                fix_commit: format!("bbbb2222{}", "0".repeat(32)),
                message: ByteText::from("Fix ratio"),
                changes: vec![change("lib/ratio.py", Role::Source), change("tests/test_ratio.py", Role::Test)],
                source_patch: ByteText::from(
                    "--- a/lib/ratio.py\n+++ b/lib/ratio.py\n@@ -1,2 +1,2 @@\n def ratio(a, b):\n-    return a / b\n+    return _safe_divide(a, b) if b else 0\n",
                ),
                test_patch: ByteText::from("+def test_ratio_of_zero():\n+    assert ratio(1, 0) == 0\n"),
                fail_to_pass: vec!["tests/test_ratio.py::test_ratio_of_zero".into()],
                pass_to_pass: vec![],
                label: EvidenceLabel::Strong,
                test_files: vec!["tests/test_ratio.py".into()],
                whole_suite: true,
                hash_seed: 0,
                after_wall_ms: 100,
                quarantined: [].into(),
                change_kind: ChangeKind::Fix,
                fairness: Vec::new(),
                n_fairness_left_out: 0,
                difficulty: Difficulty::default(),
                failing: vec![FailingTest {
                    test_id: "tests/test_ratio.py::test_ratio_of_zero".into(),
                    transition: Transition::FailToPass,
                    exception: Some("ZeroDivisionError".into()),
                    message: message.to_owned(),
                    frames: vec![],
                }],
                strength: Strength::default(),
            },
        }
    }

    #[test]
    fn each_kind_of_leak_is_found_and_plain_prose_is_not() {
        let task = task("division by zero");
        let secrets = Secrets::of(&task, "def ratio(a, b):\n    return a / b\n");
        let kinds = |text: &str| secrets.findings(text).into_iter().map(|finding| finding.kind).collect::<Vec<_>>();
        assert_eq!(kinds("test_ratio_of_zero fails"), ["test_name"]);
        assert_eq!(kinds("see tests/test_ratio.py"), ["test_path"]);
        assert_eq!(kinds("since bbbb2222 it works"), ["commit_hash"]);
        assert_eq!(kinds("broken since 3f2c1d0a9b"), ["commit_hash"]);
        assert_eq!(kinds("effaced 20230301"), [""; 0]);
        assert_eq!(kinds("call _safe_divide instead"), ["fix_name"]);
        assert_eq!(kinds("use `return  _safe_divide(a,\n b) if b else 0`"), ["fix_name", "diff_line"]);
        assert_eq!(kinds("ratio(1, 0) raises ZeroDivisionError: division by zero"), [""; 0]);
    }

    #[test]
    fn a_value_that_the_failure_itself_mentions_is_no_commit() {
        assert_eq!(Secrets::of(&task("'a' is not '0000000a'"), "").findings("expected '0000000a'"), []);
    }

    #[test]
    fn what_the_hidden_tests_need_may_be_told_and_what_is_untold_is_found() {
        let item = |kind, text: &str| FairnessItem {
            kind,
            text: text.into(),
            role: None,
            owner: None,
            signature: None,
            doc: None,
            test_path: "tests/test_ratio.py".into(),
            test_line: 2,
        };
        let mut task = task("division by zero");
        task.hidden.fairness = vec![
            item(FairnessKind::Name, "_safe_divide"),
            item(FairnessKind::Name, "test_ratio_of_zero"),
            item(FairnessKind::Message, "nothing to divide by"),
        ];
        let patch = task.hidden.source_patch.lossy();
        let patch = format!("{patch}+    nothing to divide by\n+    another long line\n");
        task.hidden.source_patch = ByteText::from(patch.as_str());
        let secrets = Secrets::of(&task, "");
        let kinds = |text: &str| secrets.findings(text).into_iter().map(|finding| finding.kind).collect::<Vec<_>>();
        assert_eq!(kinds("`_safe_divide` says: nothing to divide by"), [""; 0]);
        assert_eq!(kinds("another long line"), ["diff_line"]);
        assert_eq!(kinds("return _safe_divide(a, b) if b else 0"), ["diff_line"]);
        assert_eq!(kinds("test_ratio_of_zero"), ["test_name"]);
        let untold = lacking(&task.hidden, "It says: nothing to\ndivide by.");
        let texts: Vec<&str> = untold.iter().map(|finding| finding.excerpt.as_str()).collect();
        assert_eq!(texts, ["_safe_divide", "test_ratio_of_zero"]);
        assert!(untold.iter().all(|finding| finding.kind == "untold_item"));
    }

    #[test]
    fn a_name_that_the_failure_itself_mentions_may_be_told() {
        let task = task("module 'lib' has no attribute '_safe_divide'");
        assert_eq!(Secrets::of(&task, "").findings("there is no _safe_divide"), []);
    }
}

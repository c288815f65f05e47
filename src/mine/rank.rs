//! Which candidates most likely become tasks, told before anything is built. Pure.
//!
//! A candidate's score is the sum of the points of what holds for it, less one point for each year (ten at most) that
//! it is older than the newest candidate: old dependencies and interpreters are harder to come by. The points were set
//! by hand from 177 commits of seven repositories in four languages, of which 74 % became tasks; the last column gives
//! the share among those for which the row holds, and among the others.
//!
//! | feature | points | why | with / without |
//! |---|---|---|---|
//! | `speaks_of_fix` | 3 | who fixes something mostly shows it by a test | 81 / 63 % |
//! | `names_an_issue` | 3 | somebody has seen the failure | 88 / 66 % |
//! | `speaks_of_upkeep` | -8 | formatting, upgrades and documents leave behaviour as it is | 40 / 82 % |
//! | `changes_a_known_test_file` | 2 | the runner is known to collect it | 74 / 50 % |
//! | `one_source_file` | 2 | one change, one purpose | 79 / 56 % |
//! | `many_source_files` | -4 | four or more: mostly a sweep | 10 / 78 % |
//! | `tests_grow` | 6 | four lines or more on balance: a case is added | 83 / 44 % |
//! | `tests_do_not_grow` | -6 | tests follow a change of form | 38 / 80 % |
//! | `adds_checks` | 5 | without a new check nothing new can fail | 82 / 53 % |
//! | `many_test_files` | -4 | three or more: mostly a sweep | 64 / 75 % |
//! | `mirrored_test` | 2 | the test file is named after a changed source file | 85 / 62 % |
//! | `touches_packaging` | -3 | manifests, locks and CI go with upkeep, and need other environments | 50 / 75 % |
//! | `touches_native_code` | -6 | needs a compiler besides the interpreter | none seen |

use std::{cmp::Reverse, sync::LazyLock};

use regex::Regex;

use crate::{
    lang::paths,
    record::{
        candidate::{Candidate, FileChange, Role},
        environment::Language,
    },
};

/// A row of the table above.
struct Feature {
    name: &'static str,
    points: i32,
    holds: fn(&Facts) -> bool,
}

const FEATURES: [Feature; 13] = [
    Feature { name: "speaks_of_fix", points: 3, holds: |facts| facts.candidate.mentions_fix },
    Feature { name: "names_an_issue", points: 3, holds: |facts| ISSUE.is_match(&facts.message) },
    Feature { name: "speaks_of_upkeep", points: -8, holds: speaks_of_upkeep },
    Feature {
        name: "changes_a_known_test_file",
        points: 2,
        holds: |facts| facts.tests.iter().any(|c| c.old.is_some()),
    },
    Feature { name: "one_source_file", points: 2, holds: |facts| facts.candidate.n_source_files == 1 },
    Feature { name: "many_source_files", points: -4, holds: |facts| facts.candidate.n_source_files >= 4 },
    Feature { name: "tests_grow", points: 6, holds: |facts| facts.n_added >= facts.n_removed + 4 },
    Feature { name: "tests_do_not_grow", points: -6, holds: |facts| facts.n_added <= facts.n_removed },
    Feature { name: "adds_checks", points: 5, holds: |facts| facts.adds_checks },
    Feature { name: "many_test_files", points: -4, holds: |facts| facts.tests.len() >= 3 },
    Feature { name: "mirrored_test", points: 2, holds: has_mirrored_test },
    Feature { name: "touches_packaging", points: -3, holds: touches_packaging },
    Feature { name: "touches_native_code", points: -6, holds: touches_native_code },
];

/// Years that count, one point each.
const MAX_YEARS: i64 = 10;
const YEAR_S: i64 = 31_556_952;

/// Words of a subject that speak of upkeep.
const UPKEEP_WORDS: &str = "\
    black bump chore chores ci cleanup clippy convert deps doc docs document documentation drop flake8 fmt \
    format formatting lint linter linting modernize msrv pep8 polish pre-commit pylint pyupgrade refactor \
    refactoring release rename reformat ruff rustfmt simplify style syntax travis typo typos unnecessary \
    unused update updates upgrade warnings whitespace";
/// Parts of a line that checks something, in the four languages.
const CHECKS: [&str; 12] = [
    "assert", "expect", "raises", "should", "t.Error", "t.Fatal", "t.equal", "t.is", "t.throws", "t.same", "t.match",
    "panic",
];
/// Names of files and ends of names that say how a project is put together.
const PACKAGING: [&str; 11] = [
    ".toml",
    ".lock",
    ".yml",
    ".yaml",
    ".mod",
    ".sum",
    "setup.py",
    "setup.cfg",
    "package.json",
    "package-lock.json",
    "requirements.txt",
];

static ISSUE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)(#|\bgh-)\d+").expect("a valid pattern"));

/// What the features look at.
struct Facts<'a> {
    candidate: &'a Candidate,
    message: String,
    tests: Vec<&'a FileChange>,
    /// Lines of tests that are not blank.
    n_added: usize,
    n_removed: usize,
    adds_checks: bool,
}

/// Sorts candidates, the likeliest first; of equals, the newest, and of those the first.
pub fn sort(candidates: &mut [Candidate]) {
    let newest = candidates.iter().map(|candidate| candidate.fix_time).max().unwrap_or(0);
    candidates.sort_by_cached_key(|candidate| (Reverse(score(candidate, newest)), Reverse(candidate.fix_time)));
}

/// Returns a candidate's points, given the time of the newest one.
pub fn score(candidate: &Candidate, newest: i64) -> i32 {
    let facts = Facts::of(candidate);
    let points = FEATURES.iter().filter(|feature| (feature.holds)(&facts)).map(|feature| feature.points).sum::<i32>();
    let years = (newest.saturating_sub(candidate.fix_time) / YEAR_S).clamp(0, MAX_YEARS);
    points - i32::try_from(years).unwrap_or(0)
}

/// Returns the features that hold for a candidate, as `why` shows them.
pub fn reasons(candidate: &Candidate) -> String {
    let facts = Facts::of(candidate);
    let holding = FEATURES.iter().filter(|feature| (feature.holds)(&facts));
    holding.map(|feature| format!("{} {:+}", feature.name, feature.points)).collect::<Vec<_>>().join(", ")
}

impl<'a> Facts<'a> {
    fn of(candidate: &'a Candidate) -> Facts<'a> {
        let patch = candidate.test_patch.lossy();
        let changed = |sign: char, header: &str| -> Vec<&str> {
            let lines = patch.lines().filter(|line| line.starts_with(sign) && !line.starts_with(header));
            lines.map(|line| &line[1..]).filter(|line| !line.trim().is_empty()).collect()
        };
        let (added, removed) = (changed('+', "+++ "), changed('-', "--- "));
        Facts {
            candidate,
            message: candidate.message.lossy(),
            tests: candidate.changes.iter().filter(|change| change.changes_tests()).collect(),
            n_added: added.len(),
            n_removed: removed.len(),
            adds_checks: added.iter().any(|line| CHECKS.iter().any(|check| line.contains(check))),
        }
    }
}

fn speaks_of_upkeep(facts: &Facts) -> bool {
    let subject = facts.candidate.subject().to_lowercase();
    subject
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .any(|word| UPKEEP_WORDS.split(' ').any(|known| known == word))
}

fn has_mirrored_test(facts: &Facts) -> bool {
    let stem = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split('.').next().unwrap_or(name).to_owned()
    };
    let sources: Vec<String> =
        facts.candidate.changes_of(Role::Source).map(|change| stem(&change.path.lossy())).collect();
    facts.tests.iter().any(|test| {
        let path = test.path.lossy();
        sources.iter().any(|source| source.len() > 1 && path.contains(source.as_str()))
    })
}

fn touches_packaging(facts: &Facts) -> bool {
    let others = facts.candidate.changes_of(Role::Other).map(|change| change.path.lossy());
    others.into_iter().any(|path| PACKAGING.iter().any(|end| path.ends_with(end)))
}

fn touches_native_code(facts: &Facts) -> bool {
    let is_native = |change: &FileChange| {
        let path = change.path.as_bytes();
        paths::language(path) == Some(Language::Python) && !path.ends_with(b".py") && !path.ends_with(b".pyi")
    };
    facts.candidate.changes_of(Role::Source).any(is_native)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::candidate::{Side, Unit};

    fn change(path: &str, role: Role, is_new: bool) -> FileChange {
        let side = Some(Side { mode: 0o100_644, oid: "0".repeat(40) });
        FileChange {
            path: path.into(),
            role,
            old: side.clone().filter(|_| !is_new),
            new: side,
            added_lines: 1,
            removed_lines: 1,
            with_new_tests: None,
        }
    }

    fn candidate(message: &str, changes: Vec<FileChange>, test_patch: &str) -> Candidate {
        let n_source_files = changes.iter().filter(|change| change.role == Role::Source).count();
        Candidate {
            instance_id: message.into(),
            repo: "a/b".into(),
            repo_source: "b".into(),
            base_commit: String::new(),
            fix_commit: String::new(),
            unit: Unit::Commit,
            language: Language::Python,
            base_time: 0,
            fix_time: 1_000_000_000,
            message: message.into(),
            changes,
            source_patch: "".into(),
            test_patch: test_patch.into(),
            n_source_files: u32::try_from(n_source_files).unwrap(),
            n_source_lines: 4,
            tier: 1,
            mentions_fix: message.starts_with("Fix"),
        }
    }

    fn fix() -> Candidate {
        let changes =
            vec![change("lib/ratio.py", Role::Source, false), change("tests/test_ratio.py", Role::Test, false)];
        candidate(
            "Fix ratio of nothing (#3)",
            changes,
            "+++ b/t\n+def test_a():\n+    a = 1\n+    b = 2\n+    assert a\n",
        )
    }

    #[test]
    fn a_small_fix_with_a_new_check_comes_before_a_sweep() {
        let mut sweep: Vec<FileChange> = (0..6).map(|n| change(&format!("lib/a{n}.py"), Role::Source, false)).collect();
        sweep.extend([change("tests/test_ratio.py", Role::Test, false), change("pyproject.toml", Role::Other, false)]);
        let sweep = candidate("Upgrade syntax", sweep, "--- a/t\n-    x = u'a'\n+    x = 'a'\n");
        assert_eq!(
            reasons(&fix()),
            "speaks_of_fix +3, names_an_issue +3, changes_a_known_test_file +2, one_source_file +2, tests_grow +6, adds_checks +5, mirrored_test +2"
        );
        assert_eq!(
            reasons(&sweep),
            "speaks_of_upkeep -8, changes_a_known_test_file +2, many_source_files -4, tests_do_not_grow -6, touches_packaging -3"
        );
        let mut sorted = vec![sweep, fix()];
        sort(&mut sorted);
        assert_eq!(sorted[0].instance_id, fix().instance_id);
    }

    #[test]
    fn of_equals_the_newer_comes_first_and_age_costs_points() {
        let aged = |years: i64| Candidate { fix_time: 1_000_000_000 - years * YEAR_S, ..fix() };
        let newest = fix().fix_time;
        assert_eq!(score(&aged(3), newest), score(&fix(), newest) - 3);
        assert_eq!(score(&aged(30), newest), score(&fix(), newest) - 10);
        let mut sorted = vec![aged(2), aged(0), Candidate { fix_time: newest - 5, ..fix() }];
        sort(&mut sorted);
        assert_eq!(sorted.iter().map(|c| newest - c.fix_time).collect::<Vec<_>>(), [0, 5, 2 * YEAR_S]);
    }

    #[test]
    fn the_table_in_the_documentation_is_the_one_in_use() {
        let rows = include_str!("rank.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
        let documented: Vec<(String, i32)> = rows
            .map(|row| {
                let mut cells = row.split(" | ");
                let name = cells.next().unwrap().trim_end_matches('`').to_owned();
                (name, cells.next().unwrap().parse().unwrap())
            })
            .collect();
        let used: Vec<(String, i32)> =
            FEATURES.iter().map(|feature| (feature.name.to_owned(), feature.points)).collect();
        assert_eq!(documented, used);
    }
}

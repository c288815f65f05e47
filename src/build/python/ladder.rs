//! The attempts at one resolution, best first. Pure.
//!
//! Each rung gives up one thing that may be what cannot be resolved; every rung tried is recorded.

use jiff::{ToSpan, civil::Date};
use pep508_rs::Requirement;

use super::{
    exceptions,
    lockfile::Locked,
    recipe::{Kind, Needs},
    requirement::{is_pinned, unpinned},
};

/// The days that cut-offs derive from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days {
    /// Day of the base commit (UTC).
    pub base: Date,
    /// First of the days that share a cut-off with the base commit's.
    pub shared: Date,
    /// Day of the fix commit (UTC).
    pub fix: Date,
    /// See [`super::choice::Choice::earliest_cutoff`].
    pub earliest: Option<Date>,
    /// Whether the interpreter is one that pytest 3 works on.
    pub old_runner: bool,
}

/// Whether a rung takes requirements of a kind.
type Takes = fn(Kind) -> bool;

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rung {
    pub name: &'static str,
    /// Sorted, without repetition.
    pub requirements: Vec<String>,
    pub constraints: Vec<String>,
    /// Labels of the sources that take part.
    pub sources: Vec<String>,
    /// Last day whose releases count.
    pub cutoff: Date,
    /// The same for pytest, where it is earlier: `pytest=YYYY-MM-DD`.
    pub runner_cutoff: Option<String>,
}

/// Returns the attempts for one interpreter, without those that would repeat an earlier one.
pub fn rungs(needs: &Needs, locked: Option<&Locked>, days: Days) -> Vec<Rung> {
    let all: Takes = |_| true;
    // Rounded down: what came out on the base commit's own day was not there when it was written.
    let before = |day: Date| day.yesterday().unwrap_or(day);
    let (shared, dated, fixed) = (before(days.shared), before(days.base), days.fix);
    let mut rungs = Vec::new();
    if let Some(locked) = locked {
        // What the lock leaves open is as of the shared day where that can be.
        for (name, day) in [("lock_file", shared), ("lock_file_by_fix", fixed)] {
            let mut rung = rung(name, needs, all, false, day);
            rung.constraints.extend(locked.constraints.iter().cloned());
            rung.sources.push(locked.file.to_owned());
            rungs.push(rung);
        }
    }
    rungs.push(rung("shared", needs, all, false, shared));
    rungs.push(rung("dated", needs, all, false, dated));
    rungs.push(rung("dated_by_fix", needs, all, false, fixed));
    let without_pins: [(&'static str, Takes); 4] = [
        ("dated_without_pins", all),
        ("without_requirement_files", |kind| kind < Kind::File),
        ("without_extras", |kind| kind < Kind::Extra),
        ("runner_only", |kind| kind < Kind::Runtime),
    ];
    for (name, takes) in without_pins {
        // A lower bound may ask for what came out since the shared day.
        for day in [shared, dated] {
            rungs.push(Rung { constraints: Vec::new(), ..rung(name, needs, takes, true, day) });
        }
    }
    let mut distinct: Vec<Rung> = Vec::new();
    for mut rung in rungs {
        let day = rung.cutoff;
        rung.cutoff = cutoff(day, days.earliest);
        rung.runner_cutoff = runner_cutoff(rung.cutoff, day, days.old_runner);
        let repeats = |known: &Rung| {
            (&known.requirements, &known.constraints, known.cutoff)
                == (&rung.requirements, &rung.constraints, rung.cutoff)
        };
        if !distinct.iter().any(repeats) {
            distinct.push(rung);
        }
    }
    distinct
}

/// Applies the floors to a day.
fn cutoff(day: Date, earliest: Option<Date>) -> Date {
    let floor: Date = exceptions::floor().parse().expect("a test parses the compiled-in table");
    day.max(floor).max(earliest.unwrap_or(floor))
}

/// Returns pytest's own cut-off where the general one was raised above the commit's day.
fn runner_cutoff(cutoff: Date, day: Date, old_runner: bool) -> Option<String> {
    let day = day.max(exceptions::runner_floor().parse().expect("a test parses the compiled-in table"));
    (old_runner && day < cutoff).then(|| format!("pytest={day}"))
}

fn rung(name: &'static str, needs: &Needs, takes: Takes, without_pins: bool, cutoff: Date) -> Rung {
    let sources = needs.sources.iter().filter(|source| takes(source.kind));
    let mut requirements: Vec<String> = sources
        .clone()
        .flat_map(|source| source.requirements.iter().map(move |requirement| (source.kind, requirement)))
        .map(|(kind, requirement)| {
            let loosened = without_pins && loses_pin(kind, requirement);
            if loosened { unpinned(requirement).to_string() } else { requirement.to_string() }
        })
        .collect();
    requirements.sort();
    requirements.dedup();
    let sources = sources.map(|source| source.label.clone()).collect();
    Rung { name, requirements, constraints: needs.constraints.clone(), sources, cutoff, runner_cutoff: None }
}

/// The runner and its plugins lose every bound that the repository sets, other test requirements an exact pin; the
/// project's own stay.
fn loses_pin(kind: Kind, requirement: &Requirement) -> bool {
    let name: &str = requirement.name.as_ref();
    let is_runner = name == "pytest" || name.starts_with("pytest-") || ["pluggy", "py", "nose", "mock"].contains(&name);
    kind > Kind::Runtime && (is_runner || is_pinned(requirement))
}

/// Returns the instant before which releases count, as uv takes it.
pub fn instant(cutoff: Date) -> String {
    format!("{}T00:00:00Z", cutoff.saturating_add(1.day()))
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use jiff::civil::date;

    use super::*;
    use crate::build::python::recipe::Source;

    const DAYS: Days = at(date(2014, 1, 1));

    const fn at(day: Date) -> Days {
        Days { base: day, shared: day, fix: day, earliest: None, old_runner: false }
    }

    fn needs() -> Needs {
        let source = |kind, label: &str, lines: &[&str]| Source {
            kind,
            label: label.to_owned(),
            requirements: lines.iter().filter_map(|line| Requirement::from_str(line).ok()).collect(),
        };
        let sources = vec![
            source(Kind::Base, "runner", &["pytest"]),
            source(Kind::Runtime, "project", &["six==1.11"]),
            source(Kind::Extra, "extra tests", &["pytest>=3", "attrs==19.1"]),
            source(Kind::File, "dev.txt", &["pytest==2.8", "attrs==19.1", "hypothesis>=4"]),
        ];
        Needs { sources, constraints: vec![String::from("attrs<20")] }
    }

    fn summary(rungs: &[Rung]) -> Vec<(&'static str, String, usize, String)> {
        let line =
            |rung: &Rung| (rung.name, rung.requirements.join(" "), rung.constraints.len(), rung.cutoff.to_string());
        rungs.iter().map(line).collect()
    }

    #[test]
    fn each_rung_gives_up_one_thing() {
        let locked = Locked { file: "uv.lock", constraints: vec![String::from("attrs==19.1.0")] };
        let days = Days { base: date(2021, 3, 5), shared: date(2021, 2, 1), fix: date(2021, 3, 9), ..DAYS };
        let all = "attrs==19.1 hypothesis>=4 pytest pytest==2.8 pytest>=3 six==1.11";
        let expected = [
            ("lock_file", all, 2, "2021-01-31"),
            ("lock_file_by_fix", all, 2, "2021-03-09"),
            ("shared", all, 1, "2021-01-31"),
            ("dated", all, 1, "2021-03-04"),
            ("dated_by_fix", all, 1, "2021-03-09"),
            ("dated_without_pins", "attrs hypothesis>=4 pytest six==1.11", 0, "2021-01-31"),
            ("dated_without_pins", "attrs hypothesis>=4 pytest six==1.11", 0, "2021-03-04"),
            ("without_requirement_files", "attrs pytest six==1.11", 0, "2021-01-31"),
            ("without_requirement_files", "attrs pytest six==1.11", 0, "2021-03-04"),
            ("without_extras", "pytest six==1.11", 0, "2021-01-31"),
            ("without_extras", "pytest six==1.11", 0, "2021-03-04"),
            ("runner_only", "pytest", 0, "2021-01-31"),
            ("runner_only", "pytest", 0, "2021-03-04"),
        ];
        let expected = expected.map(|(name, all, n, day)| (name, all.to_owned(), n, day.to_owned()));
        assert_eq!(summary(&rungs(&needs(), Some(&locked), days)), expected);
    }

    #[test]
    fn floors_hold_and_equal_rungs_fall_together() {
        let needs = Needs { sources: needs().sources[..1].to_vec(), constraints: Vec::new() };
        let days = Days { fix: date(2014, 1, 2), ..at(date(2014, 1, 1)) };
        let expected = [("shared", String::from("pytest"), 0, String::from("2019-07-01"))];
        assert_eq!(summary(&rungs(&needs, None, days)), expected);
        let days = Days { earliest: Some(date(2022, 12, 23)), ..days };
        assert_eq!(rungs(&needs, None, days)[0].cutoff, date(2022, 12, 23));
        let days = Days { earliest: None, old_runner: true, ..days };
        assert_eq!(rungs(&needs, None, days)[0].runner_cutoff.as_deref(), Some("pytest=2018-11-12"));
        let days = Days { old_runner: true, ..at(date(2019, 4, 2)) };
        assert_eq!(rungs(&needs, None, days)[0].runner_cutoff.as_deref(), Some("pytest=2019-04-01"));
        let days = Days { old_runner: true, ..at(date(2019, 8, 2)) };
        assert_eq!(rungs(&needs, None, days)[0].runner_cutoff, None);
        assert_eq!(instant(date(2022, 12, 31)), "2023-01-01T00:00:00Z");
    }
}

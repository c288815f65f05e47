//! Which interpreter a commit gets: declared versions, the commit's date, and what the machine has. Pure.

use std::str::FromStr;

use jiff::civil::{Date, date};
use pep440_rs::{Version, VersionSpecifiers};

use super::manifest::Manifest;
use crate::record::environment::Toolchain;

/// First releases of minor versions (python.org).
const RELEASES: [((u64, u64), Date); 10] = [
    ((3, 6), date(2016, 12, 23)),
    ((3, 7), date(2018, 6, 27)),
    ((3, 8), date(2019, 10, 14)),
    ((3, 9), date(2020, 10, 5)),
    ((3, 10), date(2021, 10, 4)),
    ((3, 11), date(2022, 10, 24)),
    ((3, 12), date(2023, 10, 2)),
    ((3, 13), date(2024, 10, 7)),
    ((3, 14), date(2025, 10, 7)),
    ((3, 15), date(2026, 10, 1)),
];

/// Days after a release until a project that says nothing can be taken to work with it: most have released by then.
const SETTLING_DAYS: i32 = 150;
/// Days after a release until packages that know it are on the index.
const CATCH_UP_DAYS: i32 = 60;
/// Older ones are taken only where the repository names them, or for commits of their time: few packages still know
/// them, but 3.7 broke generators that raise `StopIteration` and names called `async`.
const MODERN: ((u64, u64), Date) = RELEASES[1];

/// One interpreter and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub interpreter: Toolchain,
    pub reason: String,
    /// Cut-offs must not lie before this day: nothing earlier can know the interpreter. `None` where it is old enough.
    pub earliest_cutoff: Option<Date>,
}

/// Returns the interpreters to try, best first, at most one per minor version.
///
/// # Errors
/// None fits; the text names what is wanted and what there is.
pub fn rank(found: &[Toolchain], manifest: &Manifest, wanted: Option<&str>, base: Date) -> Result<Vec<Choice>, String> {
    let mut usable: Vec<(u8, i64, Choice)> = newest_patches(found)
        .into_iter()
        .filter(|interpreter| match wanted {
            Some(wanted) => matches_wanted(&interpreter.version, wanted),
            None => satisfies(&interpreter.version, &manifest.requires_python),
        })
        .filter_map(|interpreter| place(interpreter, manifest, wanted, base))
        .collect();
    if manifest.python2_only && wanted.is_none() {
        usable.clear();
    }
    if usable.is_empty() {
        return Err(nothing_fits(found, manifest, wanted));
    }
    usable.sort_by_key(|(class, order, _)| (*class, *order));
    Ok(usable.into_iter().map(|(_, _, choice)| choice).collect())
}

/// Returns `(major, minor)` of a version text.
pub fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map_while(|part| part.parse().ok());
    Some((parts.next()?, parts.next()?))
}

fn newest_patches(found: &[Toolchain]) -> Vec<Toolchain> {
    let mut newest: Vec<Toolchain> = Vec::new();
    for interpreter in found {
        match newest.iter_mut().find(|known| minor(&known.version) == minor(&interpreter.version)) {
            Some(known) if Version::from_str(&interpreter.version).ok() > Version::from_str(&known.version).ok() => {
                *known = interpreter.clone();
            }
            Some(_) => {}
            None => newest.push(interpreter.clone()),
        }
    }
    newest
}

fn satisfies(version: &str, specifiers: &[String]) -> bool {
    let Ok(version) = Version::from_str(version) else { return false };
    // A specifier that cannot be read forbids nothing.
    specifiers.iter().filter_map(|text| VersionSpecifiers::from_str(text).ok()).all(|all| all.contains(&version))
}

fn matches_wanted(version: &str, wanted: &str) -> bool {
    version == wanted || version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns the class (lower is better) and the order within it.
fn place(interpreter: Toolchain, manifest: &Manifest, wanted: Option<&str>, base: Date) -> Option<(u8, i64, Choice)> {
    let version = minor(&interpreter.version)?;
    if version < RELEASES[0].0 {
        return None;
    }
    let released = RELEASES.iter().find(|(known, _)| *known == version).map(|(_, day)| *day);
    let age_days = released.map_or(-1, |day| (base - day).get_days());
    let is_modern = version >= MODERN.0 || base < MODERN.1;
    let name = format!("{}.{}", version.0, version.1);
    let (class, reason) = if wanted.is_some() {
        (0, String::from("asked for by the repository's manifest"))
    } else if manifest.classifiers.contains(&version) && age_days >= 0 {
        (0, format!("classifier {name}"))
    } else if !is_modern {
        (4, format!("{name} is all that fits"))
    } else if age_days >= SETTLING_DAYS {
        (1, format!("{name} was out for {age_days} days"))
    } else if age_days >= 0 {
        (2, format!("{name} was out for only {age_days} days, nothing older fits"))
    } else {
        (3, format!("{name} is the oldest that fits, released after the commit"))
    };
    let order = i64::try_from(version.0 * 1000 + version.1).unwrap_or(i64::MAX);
    let order = if matches!(class, 2 | 3) { order } else { -order };
    let reason = match manifest.requires_python.first() {
        Some(specifier) if wanted.is_none() => format!("{reason}; requires-python {specifier}"),
        Some(_) | None => reason,
    };
    let earliest_cutoff =
        released.filter(|_| age_days < 0).map(|day| day.saturating_add(jiff::Span::new().days(CATCH_UP_DAYS)));
    Some((class, order, Choice { interpreter, reason, earliest_cutoff }))
}

fn nothing_fits(found: &[Toolchain], manifest: &Manifest, wanted: Option<&str>) -> String {
    let wants = match wanted {
        Some(version) => format!("Python {version}"),
        None if manifest.python2_only => String::from("Python 2"),
        None => format!("Python {}", manifest.requires_python.join(", ")),
    };
    let has: Vec<&str> = found.iter().map(|interpreter| interpreter.version.as_str()).collect();
    let has = if has.is_empty() { String::from("none") } else { has.join(", ") };
    format!("wants {wants}; this machine has {has} (hint: `pyenv install` or `uv python install` brings others)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(versions: &[&str]) -> Vec<Toolchain> {
        let interpreter = |version: &&str| Toolchain {
            language: crate::record::environment::Language::Python,
            path: format!("/opt/{version}/bin/python").into(),
            prefix: format!("/opt/{version}").into(),
            version: (*version).to_owned(),
        };
        versions.iter().map(interpreter).collect()
    }

    fn best(versions: &[&str], classifiers: &[(u64, u64)], requires: &[&str], base: Date) -> Vec<String> {
        let manifest = Manifest {
            classifiers: classifiers.iter().copied().collect(),
            requires_python: requires.iter().map(|text| (*text).to_owned()).collect(),
            ..Manifest::default()
        };
        let ranked = rank(&machine(versions), &manifest, None, base).unwrap_or_default();
        ranked.into_iter().map(|choice| choice.interpreter.version).collect()
    }

    const ALL: [&str; 9] = ["2.7.18", "3.6.15", "3.7.16", "3.8.18", "3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0"];

    #[test]
    fn newest_classifier_of_the_time_wins() {
        let classifiers = [(2, 7), (3, 7), (3, 11), (3, 12), (3, 14)];
        assert_eq!(best(&ALL, &classifiers, &[">=3.7"], date(2023, 11, 1))[0], "3.12.1");
        assert_eq!(best(&ALL, &classifiers, &[">=3.7"], date(2023, 9, 1))[0], "3.11.7");
        assert_eq!(best(&ALL, &classifiers, &[">=3.7", "<3.12"], date(2026, 1, 1))[0], "3.11.7");
    }

    #[test]
    fn without_a_classifier_the_release_must_have_settled() {
        assert_eq!(best(&ALL, &[], &[">=3.8"], date(2024, 11, 1))[0], "3.12.1");
        assert_eq!(best(&ALL, &[], &[">=3.8"], date(2025, 4, 1))[0], "3.13.0");
    }

    #[test]
    fn commits_older_than_every_usable_interpreter_get_the_oldest() {
        let manifest = Manifest { classifiers: [(2, 6), (3, 4)].into(), ..Manifest::default() };
        let ranked = rank(&machine(&ALL), &manifest, None, date(2015, 1, 1)).expect("one fits");
        assert_eq!(ranked[0].interpreter.version, "3.6.15");
        assert_eq!(ranked[0].earliest_cutoff, Some(date(2017, 2, 21)));
        assert_eq!(best(&["3.11.2"], &[(3, 5)], &[], date(2016, 1, 1)), ["3.11.2"]);
    }

    #[test]
    fn an_old_interpreter_is_for_its_time_or_by_name() {
        assert_eq!(best(&ALL, &[], &[], date(2018, 5, 1))[..2], ["3.6.15", "3.7.16"]);
        assert_eq!(best(&ALL, &[(3, 6)], &[], date(2019, 5, 1))[..2], ["3.6.15", "3.7.16"]);
        assert_eq!(best(&ALL, &[], &[], date(2019, 5, 1))[0], "3.7.16");
    }

    #[test]
    fn what_cannot_be_had_is_named() {
        let manifest = Manifest { requires_python: vec![String::from(">=3.14")], ..Manifest::default() };
        let text = rank(&machine(&["3.11.2"]), &manifest, None, date(2026, 1, 1)).expect_err("none fits");
        assert!(text.contains(">=3.14") && text.contains("3.11.2"), "{text}");
        assert!(rank(&machine(&ALL), &Manifest::default(), Some("3.1"), date(2026, 1, 1)).is_err());
        let two = Manifest { python2_only: true, ..Manifest::default() };
        assert!(rank(&machine(&ALL), &two, None, date(2012, 1, 1)).is_err());
    }

    #[test]
    fn the_newest_patch_of_a_minor_version_is_taken() {
        assert_eq!(best(&["3.11.2", "3.11.10", "3.11.7"], &[], &[], date(2024, 1, 1)), ["3.11.10"]);
    }
}

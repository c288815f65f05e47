//! The cut-off's floor and the packages exempt from it: `configs/exceptions.toml`, compiled in.

use std::sync::LazyLock;

use serde::Deserialize;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../configs/exceptions.toml")).expect("a test parses the compiled-in table")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// `YYYY-MM-DD`.
    floor: String,
    /// `YYYY-MM-DD`.
    runner_floor: String,
    package: Vec<Package>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    /// `YYYY-MM-DD`.
    exclude_newer: String,
    /// For people; every exception has one.
    #[serde(rename = "reason")]
    _reason: String,
}

/// Returns the earliest cut-off, `YYYY-MM-DD`.
pub fn floor() -> &'static str {
    &TABLE.floor
}

/// Returns the earliest cut-off of pytest itself, `YYYY-MM-DD`.
pub fn runner_floor() -> &'static str {
    &TABLE.runner_floor
}

/// Returns `name=YYYY-MM-DD` for each package whose own date is later than the cut-off (`YYYY-MM-DD…`).
pub fn for_cutoff(cutoff: &str) -> Vec<String> {
    let later = TABLE.package.iter().filter(|package| package.exclude_newer.as_str() > cutoff);
    later.map(|package| format!("{}={}", package.name, package.exclude_newer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_apply_to_earlier_cutoffs_only() {
        assert_eq!(for_cutoff("2019-07-01"), ["atomicwrites=2022-12-01"]);
        assert_eq!(for_cutoff("2023-01-01"), Vec::<String>::new());
        assert_eq!((floor(), runner_floor()), ("2019-07-01", "2018-11-12"));
    }
}

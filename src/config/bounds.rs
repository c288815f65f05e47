//! What the numbers of a configuration file and of the flags may be: one table for both, by the setting's name.

use toml::{Table, Value};

const DAY_S: u64 = 86_400;

/// Name, least and greatest value; of a list, of each element. Beyond these a setting stands for no work at all, or for
/// more than a machine has of memory and time.
const BOUNDS: [(&str, u64, u64); 28] = [
    ("command_s", 1, DAY_S),
    ("jobs", 1, 1_024),
    ("limit", 1, 1_000_000_000),
    ("max_file_bytes", 1, 1 << 30),
    ("max_files", 1, 1_000_000),
    ("max_interpreters", 1, 100),
    ("max_row_bytes", 1, 1 << 30),
    ("max_source_files", 1, 1_000_000),
    ("max_source_lines", 1, 1_000_000_000),
    ("max_steps", 1, 10_000),
    ("max_tokens", 1, 1_000_000_000),
    ("max_wall_s", 1, DAY_S),
    ("min_wall_s", 1, DAY_S),
    ("older_than", 0, 36_500),
    ("project_timeout_s", 1, DAY_S),
    ("repeats", 1, 20),
    ("resolve_timeout_s", 1, DAY_S),
    ("row_group_bytes", 1, 1 << 30),
    ("samples", 1, 10_000),
    ("seed", 0, u64::MAX),
    ("shard_bytes", 1, 1 << 40),
    ("share_days", 1, 3_650),
    ("strength_runs", 0, 1_000),
    ("suite_s", 1, DAY_S),
    ("test_s", 1, DAY_S),
    ("test_wall_s", 1, DAY_S),
    ("tiers", 1, 2),
    ("wall_factor", 1, 1_000),
];

/// Lists that mean nothing where they are empty, and what they name.
const NOT_EMPTY: [(&str, &str); 2] = [("repos", "paths, URLs or names of repositories"), ("tiers", "1, 2 or both")];

/// Reads a number for the setting `name`.
///
/// # Errors
/// It is none or out of bounds; the message says what it may be.
pub fn number<T: TryFrom<u64>>(name: &str, text: &str) -> Result<T, String> {
    let bounds = BOUNDS.iter().find(|(bounded, _, _)| *bounded == name);
    let (_, least, greatest) = bounds.expect("every number has bounds, as the test says");
    let number = text.parse().ok().filter(|number| (least..=greatest).contains(&number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("it must be a whole number from {least} to {greatest}"))
}

/// Checks all settings of a file; what is of another type or unknown is not looked at.
///
/// # Errors
/// One is out of bounds; the message has its name, its value and what it may be.
pub fn check(table: &Table) -> Result<(), String> {
    table.iter().try_for_each(|(name, value)| check_value(name, value))
}

fn check_value(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Integer(found) if BOUNDS.iter().any(|(bounded, _, _)| *bounded == name) => {
            number::<u64>(name, &found.to_string()).map(drop).map_err(|why| format!("`{name} = {found}`: {why}"))
        }
        Value::Array(elements) => match NOT_EMPTY.iter().find(|(needed, _)| elements.is_empty() && *needed == name) {
            Some((_, what)) => Err(format!("`{name} = []`: it must name at least one; {what}")),
            None => elements.iter().try_for_each(|element| check_value(name, element)),
        },
        Value::Table(table) => check(table),
        Value::Integer(_) | Value::String(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_configuration_has_bounds_that_hold_its_default() {
        let mut run = crate::config::Run { repos: vec!["demo".to_owned()], ..crate::config::Run::default() };
        run.episodes = toml::from_str::<crate::config::Run>("episodes = [{ policy = 'noop' }]").unwrap().episodes;
        run.mine.limit = Some(crate::config::Limit::Candidates(5));
        let table = Table::try_from(&run).unwrap();
        assert_eq!(check(&table), Ok(()));
        let mut without_bounds = Vec::new();
        let mut left: Vec<(String, Value)> = table.into_iter().collect();
        while let Some((name, value)) = left.pop() {
            match value {
                Value::Integer(_) if BOUNDS.iter().all(|(bounded, _, _)| *bounded != name) => without_bounds.push(name),
                Value::Array(elements) => left.extend(elements.into_iter().map(|element| (name.clone(), element))),
                Value::Table(table) => left.extend(table),
                _ => {}
            }
        }
        assert_eq!(without_bounds, [""; 0]);
    }

    #[test]
    fn what_is_out_of_bounds_is_named_with_what_it_may_be() {
        for (text, expected) in [
            ("episodes = [{ samples = 99999999 }]", "`samples = 99999999`: it must be a whole number from 1 to 10000"),
            ("[validate]\nrepeats = 0", "`repeats = 0`: it must be a whole number from 1 to 20"),
            (
                "[validate]\ntest_s = 9223372036854775807",
                "`test_s = 9223372036854775807`: it must be a whole number from 1 to 86400",
            ),
            ("[mine]\nlimit = -3", "`limit = -3`: it must be a whole number from 1 to 1000000000"),
            ("[mine]\ntiers = [1, 3]", "`tiers = 3`: it must be a whole number from 1 to 2"),
            ("[mine]\ntiers = []", "`tiers = []`: it must name at least one; 1, 2 or both"),
            ("repos = []", "`repos = []`: it must name at least one; paths, URLs or names of repositories"),
        ] {
            assert_eq!(check(&text.parse().unwrap()), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(number::<u8>("tiers", "2"), Ok(2));
        assert!(number::<u32>("samples", "18446744073709551616").is_err());
    }
}

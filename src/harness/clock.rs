//! Another date, time of day and time zone for the processes of a run, by `libfaketime`.
//!
//! Reaches what asks the C library for the time: Python, Node and Rust, not Go. Monotonic clocks and file times stay real,
//! so that limits and builds work as ever.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::record::suite::Variation;

const DAY_S: i64 = 86_400;
/// Another year, month and day of the week.
const DATE_SHIFT_S: i64 = 400 * DAY_S;
/// UTC+5:45.
const ZONE: &str = "Asia/Kathmandu";

static LIBRARY: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let places = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    places.into_iter().find(|path| path.exists())
});

/// Returns the library that shifts clocks, if this machine has it.
///
/// # Errors
/// It has not.
pub fn library() -> anyhow::Result<&'static Path> {
    LIBRARY.as_deref().ok_or_else(|| anyhow::anyhow!("no libfaketime: tests are not run at another date and time"))
}

/// Returns the variables that show a variation's time; none where nothing shifts clocks.
pub fn variables(variation: Variation) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    let shift_s = shift_s(variation, now);
    if let (true, Ok(library)) = (shift_s != 0, library()) {
        variables.push(("LD_PRELOAD".to_owned(), library.display().to_string()));
        variables.push(("FAKETIME".to_owned(), format!("{shift_s:+}")));
        variables.extend(
            ["DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"]
                .map(|name| (name.to_owned(), "1".to_owned())),
        );
    }
    if variation.other_zone {
        variables.push(("TZ".to_owned(), ZONE.to_owned()));
    }
    variables
}

/// Returns by how much a run's clock differs. The other time is in the other half of the same day (UTC).
fn shift_s(variation: Variation, now_s: i64) -> i64 {
    let date = if variation.other_date { DATE_SHIFT_S } else { 0 };
    let half = DAY_S / 2;
    let time = match (variation.other_time, now_s.rem_euclid(DAY_S) < half) {
        (false, _) => 0,
        (true, true) => half,
        (true, false) => -half,
    };
    date + time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_time_is_on_the_same_day() {
        let variation = Variation { other_time: true, ..Variation::PLAIN };
        for now in [0, 1, DAY_S / 2 - 1, DAY_S / 2, DAY_S - 1, 1_800_000_000] {
            let other = now + shift_s(variation, now);
            assert_eq!(other.div_euclid(DAY_S), now.div_euclid(DAY_S));
            assert_ne!(other.rem_euclid(DAY_S) < DAY_S / 2, now.rem_euclid(DAY_S) < DAY_S / 2);
        }
    }

    #[test]
    fn only_what_a_variation_asks_for_is_changed() {
        assert!(variables(Variation::PLAIN).is_empty());
        let zone = Variation { other_zone: true, ..Variation::PLAIN };
        assert_eq!(variables(zone), [("TZ".to_owned(), ZONE.to_owned())]);
        assert_eq!(shift_s(Variation { other_date: true, ..Variation::PLAIN }, 5), DATE_SHIFT_S);
    }
}

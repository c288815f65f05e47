//! Another date, time of day and time zone for the processes of a run, by a preloaded library.
//!
//! Reaches what asks the C library for the time: Python, Node and Rust, not Go. Monotonic clocks and file times stay real,
//! so that limits, sleeps and builds work as ever. libfaketime (0.9.10) was tried: under it `time.sleep` fails or hangs in
//! Python 3.11 and later.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{lang::RUNNERS, record::suite::Variation};

/// Shown at [`RUNNERS`].
pub const LIBRARY_NAME: &str = "clock.so";
/// Compiled from `clock.c`.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

const DAY_S: i64 = 86_400;
/// Another year, month and day of the week.
const DATE_SHIFT_S: i64 = 400 * DAY_S;
/// UTC+5:45.
const ZONE: &str = "Asia/Kathmandu";

/// Returns the variables that show a variation's time.
pub fn variables(variation: Variation) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    let shift_s = shift_s(variation, now);
    if shift_s != 0 {
        variables.push(("LD_PRELOAD".to_owned(), format!("{RUNNERS}/{LIBRARY_NAME}")));
        variables.push(("CURATE_CLOCK_SHIFT_S".to_owned(), shift_s.to_string()));
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

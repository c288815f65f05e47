//! `curate cache`: what the cache holds, and removing what was not used for long.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use serde::Serialize;

use crate::cache::{Cache, Kept};

use super::{Session, args, exit::Exit};

/// What one directory of the cache holds.
#[derive(Debug, Default, Serialize)]
struct Holding {
    entries: usize,
    bytes: u64,
}

pub fn command(session: &Session, flags: &args::Cache) -> Result<Exit> {
    let cache = Cache::open()?;
    match &flags.action {
        None => show(session, &cache),
        Some(args::CacheAction::Gc(gc)) => collect(session, &cache, gc),
    }
}

fn show(session: &Session, cache: &Cache) -> Result<Exit> {
    let mut holdings: BTreeMap<String, Holding> = BTreeMap::new();
    for kept in cache.kept()? {
        let holding = holdings.entry(kept.kind).or_default();
        holding.entries += 1;
        holding.bytes += kept.bytes;
    }
    let mut text = format!("{}\n", cache.root().display());
    for (kind, Holding { entries, bytes }) in &holdings {
        text.push_str(&format!("  {kind:<14} {entries:>6}  {:>9}\n", size(*bytes)));
    }
    let total = holdings.values().map(|holding| holding.bytes).sum();
    text.push_str(&format!("  {:<14} {:>6}  {:>9}\n", "all", "", size(total)));
    session.result(&holdings, &text)?;
    Ok(Exit::Done)
}

fn collect(session: &Session, cache: &Cache, flags: &args::Gc) -> Result<Exit> {
    let kept = cache.kept()?;
    let all: u64 = kept.iter().map(|kept| kept.bytes).sum();
    let limit = flags.max_gb.map(|gb| gb * 1e9);
    let oldest = flags.older_than.map(|days| SystemTime::now() - Duration::from_secs(days * 86_400));
    let chosen = choose(kept, all, limit, oldest);
    let bytes: u64 = chosen.iter().map(|kept| kept.bytes).sum();
    if !flags.dry_run {
        cache.collect(&chosen)?;
    }
    let n_entries = if chosen.len() == 1 { "1 entry".to_owned() } else { format!("{} entries", chosen.len()) };
    let verb = if flags.dry_run { "would be removed" } else { "removed" };
    let text = format!("{}, {} {verb}; {} stay", n_entries, size(bytes), size(all - bytes));
    session.result(&Holding { entries: chosen.len(), bytes }, &text)?;
    Ok(Exit::Done)
}

/// Returns the entries that are too old, then the oldest until the rest fits.
fn choose(kept: Vec<Kept>, all: u64, limit: Option<f64>, oldest: Option<SystemTime>) -> Vec<Kept> {
    let mut candidates: Vec<Kept> = kept.into_iter().filter(|kept| kept.is_collected).collect();
    candidates.sort_by_key(|kept| kept.last_used);
    let mut left = all;
    candidates
        .into_iter()
        .filter(|kept| {
            let goes =
                oldest.is_some_and(|oldest| kept.last_used < oldest) || limit.is_some_and(|limit| left as f64 > limit);
            left -= if goes { kept.bytes } else { 0 };
            goes
        })
        .collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_until_the_rest_fits() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let kept = |name: &str, seconds, is_collected| Kept {
            kind: "trees".to_owned(),
            path: name.into(),
            bytes: 10,
            last_used: at(seconds),
            is_collected,
        };
        let all = || vec![kept("b", 2, true), kept("a", 1, true), kept("tool", 0, false), kept("c", 3, true)];
        let names = |chosen: Vec<Kept>| chosen.iter().map(|kept| kept.path.display().to_string()).collect::<String>();
        assert_eq!(names(choose(all(), 40, Some(25.0), None)), "ab");
        assert_eq!(names(choose(all(), 40, None, Some(at(2)))), "a");
        assert_eq!(names(choose(all(), 40, None, None)), "");
        assert_eq!(size(1_500_000_000), "1.5 GB");
    }
}

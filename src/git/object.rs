//! Commit, tag and tree objects, read from their bytes.
//!
//! Tolerant on purpose: git has stored malformed author lines, impossible time zones and missing dates for two
//! decades, and strict readers lose whole repositories over one of them. What cannot be read is named in
//! [`Commit::defect`]; nothing here fails as long as tree and parents can be told.

use git2::Oid;

/// Seconds since 1970 of the years 1 to 9999; other values are no dates.
const TIMES: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// One commit object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: Oid,
    pub tree: Oid,
    pub parents: Vec<Oid>,
    /// Commit time, seconds since 1970 (UTC); absent where it is missing or no date.
    pub time: Option<i64>,
    pub message: Vec<u8>,
    /// What is malformed about the object.
    pub defect: Option<String>,
}

/// Parses a commit object.
///
/// # Errors
/// No tree or a parent that is not an id.
pub fn parse_commit(id: Oid, data: &[u8]) -> Result<Commit, String> {
    let (header, message) = split_header(data);
    let mut tree = None;
    let mut parents = Vec::new();
    let mut time = None;
    let mut defect = None;
    for line in header.split(|&byte| byte == b'\n') {
        if let Some(hex) = line.strip_prefix(b"tree ") {
            tree = tree.or(parse_id(hex));
        } else if let Some(hex) = line.strip_prefix(b"parent ") {
            parents.push(parse_id(hex).ok_or("a parent is not an object id")?);
        } else if let Some(person) = line.strip_prefix(b"author ") {
            if !is_person(person) {
                defect = Some("malformed author line".to_owned());
            }
        } else if let Some(person) = line.strip_prefix(b"committer ") {
            if !is_person(person) {
                defect = Some("malformed committer line".to_owned());
            }
            time = parse_time(person);
        }
    }
    let tree = tree.ok_or("it names no tree")?;
    Ok(Commit { id, tree, parents, time, message: message.to_vec(), defect })
}

/// Returns the object that an annotated tag points to.
pub fn tag_target(data: &[u8]) -> Option<Oid> {
    let line = data.split(|&byte| byte == b'\n').next()?;
    parse_id(line.strip_prefix(b"object ")?)
}

fn split_header(data: &[u8]) -> (&[u8], &[u8]) {
    match data.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&data[..at], &data[at + 2..]),
        None => (data, b""),
    }
}

fn parse_id(hex: &[u8]) -> Option<Oid> {
    let text = std::str::from_utf8(hex).ok()?;
    if text.len() == 40 { Oid::from_str(text).ok() } else { None }
}

/// Says whether a line has the form `name <e-mail> …`.
fn is_person(line: &[u8]) -> bool {
    let open = line.iter().position(|&byte| byte == b'<');
    let close = line.iter().rposition(|&byte| byte == b'>');
    matches!((open, close), (Some(open), Some(close)) if open < close)
}

/// Reads the seconds after the e-mail; the zone is of no interest.
fn parse_time(line: &[u8]) -> Option<i64> {
    let seconds: i64 = match line.iter().rposition(|&byte| byte == b'>') {
        Some(close) => String::from_utf8_lossy(&line[close + 1..]).split_ascii_whitespace().next()?.parse().ok()?,
        None => String::from_utf8_lossy(line).split_ascii_whitespace().find_map(|word| word.parse().ok())?,
    };
    TIMES.contains(&seconds).then_some(seconds)
}

/// One entry of a tree object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// As stored, without normalisation.
    pub raw_mode: u32,
    pub name: &'a [u8],
    pub oid: Oid,
}

/// Iterates over a tree object's entries; stops with an error at the first malformed one.
pub fn entries(data: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, String>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((entry, tail)) = parse_entry(rest) else {
            rest = &[];
            return Some(Err("malformed tree".to_owned()));
        };
        rest = tail;
        Some(Ok(entry))
    })
}

fn parse_entry(data: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let blank = data.iter().position(|&byte| byte == b' ')?;
    let raw_mode = u32::from_str_radix(std::str::from_utf8(&data[..blank]).ok()?, 8).ok()?;
    let data = &data[blank + 1..];
    let end = data.iter().position(|&byte| byte == 0)?;
    let oid = Oid::from_bytes(data.get(end + 1..end + 21)?).ok()?;
    Some((Entry { raw_mode, name: &data[..end], oid }, &data[end + 21..]))
}

/// Reduces a stored mode to one of the five that git knows.
pub fn canonical_mode(raw: u32) -> u32 {
    match raw & 0o170_000 {
        0o040_000 => 0o040_000,
        0o120_000 => super::SYMLINK,
        0o160_000 => super::GITLINK,
        _ if raw & 0o100 != 0 => super::EXECUTABLE,
        _ => super::PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";

    fn commit(lines: &str) -> Commit {
        let data = format!("{TREE}{lines}\n\nSubject\n");
        parse_commit(Oid::ZERO_SHA1, data.as_bytes()).unwrap()
    }

    #[test]
    fn b002_a_malformed_author_is_a_defect_and_not_an_error() {
        let bad = commit("author T <t@e.invalid 5 +0000\ncommitter C <c@e.invalid> 7 +0000");
        assert_eq!((bad.defect.as_deref(), bad.time), (Some("malformed author line"), Some(7)));
        let split = commit("author T <t@\ne.invalid> 5 +0000\ncommitter C <c@e.invalid> 7 +0000");
        assert_eq!((split.defect.is_some(), split.time), (true, Some(7)));
        let brackets = commit("author A <b> C <t@e> 5 +0000\ncommitter C <d> <c@e> 7 +0000");
        assert_eq!((brackets.defect, brackets.time), (None, Some(7)));
    }

    #[test]
    fn b003_odd_dates_are_read_or_absent() {
        let time = |tail: &str| commit(&format!("author A <a@e> 1 +0000\ncommitter C <c@e>{tail}")).time;
        assert_eq!(time(" 1300000000 +051800"), Some(1_300_000_000));
        assert_eq!(time(" 1300000000 -3407"), Some(1_300_000_000));
        assert_eq!(time(""), None);
        assert_eq!(time(" -5 +0000"), Some(-5));
        assert_eq!(time(" 1000000000000000000 +0000"), None);
        assert_eq!(time(" 99999999999999999999 +0000"), None);
    }

    #[test]
    fn b003_messages_are_bytes() {
        let mut data = format!("{TREE}author A <a@e> 1 +0000\ncommitter A <a@e> 1 +0000\n\n").into_bytes();
        data.extend_from_slice(b"caf\xe9\0!\n\nbody\n");
        assert_eq!(parse_commit(Oid::ZERO_SHA1, &data).unwrap().message, b"caf\xe9\0!\n\nbody\n");
    }

    #[test]
    fn a_commit_without_a_tree_is_an_error() {
        assert!(parse_commit(Oid::ZERO_SHA1, b"author A <a@e> 1 +0000\n\nx").is_err());
        assert!(parse_commit(Oid::ZERO_SHA1, format!("{TREE}parent 12\n\nx").as_bytes()).is_err());
    }

    #[test]
    fn tree_entries_stop_at_damage() {
        let mut data = b"100644 a b\0".to_vec();
        data.extend([7; 20]);
        data.extend(b"40000 d\0short");
        let read: Vec<_> = entries(&data).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].as_ref().map(|entry| entry.name), Ok(b"a b".as_slice()));
        assert!(read[1].is_err());
    }
}

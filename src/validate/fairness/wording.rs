//! When two texts are one message: what a test looks for, and what a program is written to say. Pure.

use crate::syntax::vocabulary::Literal;

/// Letters of a message below which it may occur in another by chance.
const MIN_LETTERS: usize = 7;
/// Bytes of the beginning or end of a message's part below which another text may have it by chance.
const MIN_PIECE: usize = 4;

/// Returns what a test's string asks for, line by line; around what is filled in, and around a pattern's gaps.
pub fn pieces(literal: &Literal) -> Vec<String> {
    let lines = literal.parts.iter().flat_map(|part| part.lines());
    let parts = lines.flat_map(|line| line.split(".*")).flat_map(|part| part.split(".+"));
    let plain = parts.map(|part| part.trim().trim_start_matches('^').trim_end_matches('$').trim());
    plain.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Returns a pattern's text with its escaped characters as they are.
pub fn without_escapes(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match (character, rest.clone().next()) {
            ('\\', Some(escaped)) if !escaped.is_alphanumeric() => {
                result.push(escaped);
                rest.next();
            }
            _ => result.push(character),
        }
    }
    result
}

/// Returns the parts of a program's text on which a test's text rests: one that holds the test's, some that it
/// spans, or all, in order.
pub fn shared(literal: &Literal, text: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = literal.parts.iter().flat_map(|part| fixed_parts(part)).collect();
    if n_letters(text) >= MIN_LETTERS
        && let Some(part) = parts.iter().find(|part| part.contains(text))
    {
        return Some(vec![part.clone()]);
    }
    if let Some(span) = span(&parts, text) {
        return Some(span);
    }
    let mut rest = text;
    for part in &parts {
        rest = &rest[rest.find(part.as_str())? + part.len()..];
    }
    let is_telling = parts.iter().map(|part| n_letters(part)).sum::<usize>() >= MIN_LETTERS
        && parts.iter().any(|part| part.contains(' '));
    is_telling.then_some(parts)
}

/// Returns neighbouring parts of which a text holds the end of the first, the beginning of the last, and all between.
fn span(parts: &[String], text: &str) -> Option<Vec<String>> {
    let is_enough = |piece: &str, part: &str| piece.len() >= MIN_PIECE || piece == part;
    (0..parts.len()).find_map(|first| {
        let ends = parts[first].char_indices().map(|(at, _)| &parts[first][at..]);
        let end = ends.filter(|end| is_enough(end, &parts[first])).find(|end| text.starts_with(end))?;
        let (mut rest, mut held, mut last) = (&text[end.len()..], n_letters(end), first);
        for part in &parts[first + 1..] {
            let Some(at) = rest.find(part.as_str()) else {
                let starts = part.char_indices().rev().map(|(at, _)| &part[..at]);
                let start = starts.filter(|start| is_enough(start, part)).find(|start| rest.ends_with(start));
                held += start.map_or(0, n_letters);
                last += usize::from(start.is_some());
                break;
            };
            rest = &rest[at + part.len()..];
            held += n_letters(part);
            last += 1;
        }
        (last > first && held >= MIN_LETTERS).then(|| parts[first..=last].to_vec())
    })
}

fn n_letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphabetic()).count()
}

/// Returns what a format leaves as it is: the texts around `{…}`, `%s` and the like.
fn fixed_parts(format: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = format;
    while let Some(character) = rest.chars().next() {
        let hole = match character {
            '{' => rest.find('}').map(|end| end + 1),
            '%' => verb(rest),
            '\n' => Some(1),
            _ => None,
        };
        match hole {
            Some(length) => {
                parts.push(String::new());
                rest = &rest[length..];
            }
            None => {
                parts.last_mut().expect("there is at least one part").push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Returns the length of a `%` verb as C, Python and Go have it; `100% of` holds none.
fn verb(text: &str) -> Option<usize> {
    let mut at = 1;
    if text[at..].starts_with('(') {
        at += text[at..].find(')')? + 1;
    }
    let flags = text[at..].chars().take_while(|c| "#0-+.0123456789*".contains(*c)).count();
    at += flags;
    let letter = text[at..].chars().next().filter(|c| "sdrifxXqvwtTgeucaopU".contains(*c))?;
    Some(at + letter.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_patterns_are_read_around_their_holes() {
        assert_eq!(fixed_parts("got {x!r} of %(n)d, 100% sure %5.2f"), ["got", "of", ", 100% sure"]);
        assert_eq!(without_escapes(r"a \(b\) \d \\"), r"a (b) \d \");
        let literal = |text: &str| Literal { parts: vec![text.into()], line: 1, last_line: 1 };
        assert_eq!(pieces(&literal("^a b$\n\n c.*d.+")), ["a b", "c", "d"]);
        assert_eq!(
            shared(&literal("cannot read %s in {} mode"), "cannot read 1 in 2 mode"),
            Some(vec!["cannot read".into(), "in".into(), "mode".into()])
        );
        let read = || Some(vec!["cannot read".to_owned(), "in strict mode".to_owned()]);
        assert_eq!(shared(&literal("cannot read %s in strict mode"), "read '' in strict"), read());
        assert_eq!(shared(&literal("cannot read %s in strict mode"), "cannot read i"), None);
        assert_eq!(shared(&literal("cannot read %s"), "cannot write 1"), None);
        assert_eq!(shared(&literal("a %s b"), "a x b"), None, "too short to tell");
    }
}

//! Git's quoting of unusual path names in patches.

/// Writes a path with its prefix (`a/`, `b/`), in quotes where git would quote it (`core.quotePath` on).
pub fn quoted(prefix: &str, path: &[u8]) -> Vec<u8> {
    let mut plain = prefix.as_bytes().to_vec();
    plain.extend_from_slice(path);
    if !plain.iter().any(|&byte| needs_quote(byte)) {
        return plain;
    }
    let mut text = vec![b'"'];
    for byte in plain {
        match escape(byte) {
            Some(letter) => text.extend([b'\\', letter]),
            None if needs_quote(byte) => text.extend(format!("\\{byte:03o}").into_bytes()),
            None => text.push(byte),
        }
    }
    text.push(b'"');
    text
}

fn needs_quote(byte: u8) -> bool {
    !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\'
}

fn escape(byte: u8) -> Option<u8> {
    match byte {
        0x07 => Some(b'a'),
        0x08 => Some(b'b'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        0x0b => Some(b'v'),
        0x0c => Some(b'f'),
        b'\r' => Some(b'r'),
        b'"' | b'\\' => Some(byte),
        _ => None,
    }
}

/// Reads a quoted name at the start of `text`; returns it and what follows the closing quote.
pub fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (decoded, tail) = unescape(rest)?;
                name.push(decoded);
                rest = tail;
            }
            _ => name.push(byte),
        }
    }
}

fn unescape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&letter, rest) = text.split_first()?;
    let decoded = match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'r' => b'\r',
        b'"' | b'\\' => letter,
        b'0'..=b'3' => {
            let digits = std::str::from_utf8(text.get(..3)?).ok()?;
            return Some((u8::from_str_radix(digits, 8).ok()?, &text[3..]));
        }
        _ => return None,
    };
    Some((decoded, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b025_names_are_quoted_as_git_does_and_come_back() {
        assert_eq!(quoted("a/", b"x b/y.txt"), b"a/x b/y.txt");
        assert_eq!(quoted("a/", "naïve.txt".as_bytes()), br#""a/na\303\257ve.txt""#);
        assert_eq!(quoted("b/", b"tab\tq\"uote\\.txt"), br#""b/tab\tq\"uote\\.txt""#);
        let every_byte: Vec<u8> = (1..=255).collect();
        let text = [quoted("a/", &every_byte), b" rest".to_vec()].concat();
        let (name, rest) = unquoted(&text).unwrap();
        assert_eq!((&name[2..], rest), (every_byte.as_slice(), b" rest".as_slice()));
    }

    #[test]
    fn broken_quotes_are_refused() {
        for text in [br#""a"#.as_slice(), br#""\x""#, br#""\40""#, b"a"] {
            assert_eq!(unquoted(text), None);
        }
    }
}

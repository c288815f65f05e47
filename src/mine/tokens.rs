//! Python text → the tokens that matter to its meaning: no comments, docstrings, blank lines or layout.
//!
//! Not a parser. Two texts with the same tokens mean the same; two with different tokens may. Whatever the lexer is not
//! sure of (an open string or bracket, a dedent to nowhere) gives no answer, and the change is then taken for a real one.

/// Returns the significant tokens of a Python file, or `None` where it cannot be read for sure.
pub fn significant(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), indents: vec![0], depth: 0 };
    while lexer.at < text.len() {
        lexer.logical_line()?;
    }
    Some(lexer.tokens)
}

/// Begins the token of a plain string; no other token begins so.
const STRING: u8 = b'"';
const INDENT: &[u8] = b"\x01indent";
const DEDENT: &[u8] = b"\x02dedent";
const NEWLINE: &[u8] = b"\n";

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    tokens: Vec<Vec<u8>>,
    /// Columns of the blocks that are open.
    indents: Vec<usize>,
    /// Open brackets.
    depth: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Reads a line with all its continuations; drops it where it is blank, a comment or a lone string.
    fn logical_line(&mut self) -> Option<()> {
        let column = self.indentation();
        let mut line = Vec::new();
        loop {
            match self.peek(0) {
                _ if self.at >= self.text.len() => break,
                b'\n' if self.depth == 0 => {
                    self.at += 1;
                    break;
                }
                b'#' => self.comment(),
                b'\\' => self.continuation()?,
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.at += 1,
                _ => line.push(self.token()?),
            }
        }
        if self.depth > 0 {
            return None;
        }
        if line.iter().all(|token| is_docstring(token)) {
            return Some(());
        }
        self.indent_to(column)?;
        self.tokens.append(&mut line);
        self.tokens.push(NEWLINE.to_vec());
        Some(())
    }

    /// Skips the blanks a line begins with and returns their width; a tab goes to the next multiple of eight.
    fn indentation(&mut self) -> usize {
        let mut column = 0;
        loop {
            match self.peek(0) {
                b' ' => column += 1,
                b'\t' => column = (column / 8 + 1) * 8,
                0x0c => column = 0,
                _ => return column,
            }
            self.at += 1;
        }
    }

    fn indent_to(&mut self, column: usize) -> Option<()> {
        let current = *self.indents.last()?;
        if column > current {
            self.indents.push(column);
            self.tokens.push(INDENT.to_vec());
        }
        while column < *self.indents.last()? {
            self.indents.pop();
            self.tokens.push(DEDENT.to_vec());
        }
        (*self.indents.last()? == column).then_some(())
    }

    fn comment(&mut self) {
        while self.at < self.text.len() && self.peek(0) != b'\n' {
            self.at += 1;
        }
    }

    fn continuation(&mut self) -> Option<()> {
        let length = match (self.peek(1), self.peek(2)) {
            (b'\n', _) => 2,
            (b'\r', b'\n') => 3,
            _ => return None,
        };
        self.at += length;
        Some(())
    }

    fn token(&mut self) -> Option<Vec<u8>> {
        let start = self.at;
        if let Some(length) = self.string_prefix() {
            return self.string(length);
        }
        let byte = self.peek(0);
        if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) {
            self.number();
        } else if is_word(byte) {
            while is_word(self.peek(0)) {
                self.at += 1;
            }
        } else {
            match byte {
                0 => return None,
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
        }
        Some(self.text[start..self.at].to_vec())
    }

    fn number(&mut self) {
        while is_word(self.peek(0)) || self.peek(0) == b'.' {
            let is_exponent = matches!(self.peek(0), b'e' | b'E') && matches!(self.peek(1), b'+' | b'-');
            self.at += if is_exponent { 2 } else { 1 };
        }
    }

    /// Returns the length of the letters before a quote, where a string begins here.
    fn string_prefix(&self) -> Option<usize> {
        for length in 0..=2 {
            match self.peek(length) {
                b'"' | b'\'' => return Some(length),
                letter if b"rRbBuUfFtT".contains(&letter) => {}
                _ => return None,
            }
        }
        None
    }

    /// Reads a string whose prefix has `length` letters.
    fn string(&mut self, length: usize) -> Option<Vec<u8>> {
        let start = self.at;
        let prefix = self.text[start..start + length].to_ascii_lowercase();
        self.at += length;
        let quote = self.peek(0);
        let is_triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if is_triple { 3 } else { 1 };
        self.at += width;
        let body = self.at;
        let is_formatted = prefix.iter().any(|letter| matches!(letter, b'f' | b't'));
        while !(self.peek(0) == quote && (!is_triple || (self.peek(1) == quote && self.peek(2) == quote))) {
            match self.peek(0) {
                _ if self.at >= self.text.len() => return None,
                b'\n' if !is_triple => return None,
                b'\\' => self.at += 2,
                b'{' if is_formatted && self.peek(1) == b'{' => self.at += 2,
                b'{' if is_formatted => self.replacement_field()?,
                _ => self.at += 1,
            }
        }
        let content = self.text.get(body..self.at)?;
        self.at += width;
        let is_plain = !is_formatted && !content.iter().any(|byte| matches!(byte, b'\\' | b'"' | b'\'' | b'\r'));
        if !is_plain {
            return Some(self.text[start..self.at].to_vec());
        }
        // The kind of quotes does not matter, nor does `u`.
        let prefix = prefix.strip_prefix(b"u").unwrap_or(&prefix);
        Some([&[STRING], prefix, &[STRING], content].concat())
    }

    /// Skips `{…}` of a formatted string, with the strings and brackets in it.
    fn replacement_field(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            if let Some(length) = self.string_prefix() {
                self.string(length)?;
                continue;
            }
            match self.peek(0) {
                0 => return None,
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Says whether a token is a string that does nothing as a statement and that no doctest runs.
fn is_docstring(token: &[u8]) -> bool {
    let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_string = matches!(token.get(letters), Some(b'"' | b'\''))
        && !token[..letters].iter().any(|letter| matches!(letter.to_ascii_lowercase(), b'f' | b't' | b'b'));
    is_string && !token.windows(3).any(|part| part == b">>>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(old: &str, new: &str) -> bool {
        let (old, new) = (significant(old.as_bytes()), significant(new.as_bytes()));
        old.is_some() && old == new
    }

    const CODE: &str = "def f(a, b=1):\n    \"\"\"Doc.\"\"\"\n    if a:\n        return 'x' + \\\n            b  # why\n    return [1,\n            2]\n";

    #[test]
    fn comments_docstrings_and_layout_do_not_matter() {
        for new in [
            "# new\ndef f(a, b = 1):\n  'Other doc.'\n  if a:\n      return \"x\" + b\n\n  return [1, 2]\n",
            "def f(a, b=1):\r\n\tif a: # c\r\n\t\treturn u'x' + b\r\n\treturn [ # c\r\n1,2]",
            "\u{c}\"\"\"Module.\"\"\"\ndef f(a,\n      b=1):\n    # c\n    if a:\n        return 'x' + b\n    return [1, 2]\n",
        ] {
            assert!(same(CODE, new), "{new}\n{:?}", significant(new.as_bytes()));
        }
        assert!(same("", "# only a comment\n"));
        assert!(same("x = f\"{a['b']}\"", "x = f\"{a['b']}\" # c"));
    }

    #[test]
    fn every_change_of_meaning_shows() {
        for new in [
            CODE.replace("b=1", "b=2"),
            CODE.replace("'x'", "'y'"),
            CODE.replace("'x'", "b'x'"),
            CODE.replace("'x'", "'x '"),
            CODE.replace("    return [", "        return ["),
            CODE.replace("return [1,", "return [1\n"),
            CODE.replace("[1,\n            2]", "[1, 2,]"),
            CODE.replace("def f", "async def f"),
            format!("{CODE}pass\n"),
            String::new(),
        ] {
            assert!(!same(CODE, &new), "{new}");
        }
        for (old, new) in [
            ("x = '#a'", "x = '#b'"),
            ("x = f\"{a[\"#\"]}\" + 'b'", "x = f\"{a[\"#\"]}\" + 'c'"),
            ("x = f'{{#}}{a:{w}}' + b", "x = f'{{#}}{a:{w}}' + c"),
            ("x = '\\'#' + a", "x = '\\'#' + b"),
            ("x = '''\n#a'''", "x = '''\n#b'''"),
            ("if a:\n  b\n  c\n", "if a:\n  b\nc\n"),
            ("x = 1.5", "x = 15"),
            ("x = ab", "x = a_b"),
            ("x = r'\\d'", "x = '\\d'"),
            ("f('doc')", "f('dog')"),
            ("'''\n>>> f(1)\n2\n'''", "'''\n>>> f(1)\n3\n'''"),
            ("x = 'a' 'b'", "x = 'ab'"),
            ("x = 1 .real", "x = 1.real"),
        ] {
            assert!(!same(old, new), "{old} | {new}");
        }
    }

    #[test]
    fn doubt_gives_no_answer() {
        for text in ["x = 'open", "x = (1", "x = 1)", "if a:\n    b\n  c\n", "x = '''open", "x \\ y", "a\0b", "f'{a'"] {
            assert_eq!(significant(text.as_bytes()), None, "{text}");
        }
    }
}

//! Python text → the tokens that matter to its meaning: no comments, docstrings, blank lines or layout.
//! They are compared line by line, from the last line before the first difference to the first line that differs.
//!
//! Not a parser. Two texts with the same tokens mean the same; two with different tokens may. Whatever the lexer is not
//! sure of (an open string or bracket, a dedent to nowhere) gives no answer, and the change is then taken for a real one.

use crate::git::hunks::equal_prefix;

/// Says whether two Python files differ in comments, docstrings, blank lines and layout alone.
pub fn is_same_code(old: &[u8], new: &[u8]) -> bool {
    let common = equal_prefix(old, new);
    let Some(mut left) = Lexer::at_last_line(old, common) else { return false };
    let mut right = Lexer { text: new, ..left.clone() };
    let (mut old_line, mut new_line) = (Vec::new(), Vec::new());
    loop {
        let more = (left.significant_line(&mut old_line), right.significant_line(&mut new_line));
        match more {
            (Some(false), Some(false)) => return true,
            (Some(true), Some(true)) if old_line == new_line => {}
            _ => return false,
        }
    }
}

/// Begins the token of a plain string; no other token begins so.
const STRING: u8 = b'"';
const INDENT: u8 = 1;
const DEDENT: u8 = 2;
/// Ends every token.
const END: u8 = 0;

#[derive(Clone)]
struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Columns of the blocks that are open.
    indents: Vec<usize>,
    /// Open brackets.
    depth: usize,
}

impl<'a> Lexer<'a> {
    /// Returns a lexer at the last end of a logical line within the first `limit` bytes.
    fn at_last_line(text: &'a [u8], limit: usize) -> Option<Lexer<'a>> {
        let mut lexer = Lexer { text, at: 0, indents: vec![0], depth: 0 };
        let mut last = lexer.clone();
        let mut line = Vec::new();
        while lexer.at < text.len() {
            lexer.logical_line(&mut line)?;
            if lexer.at > limit {
                break;
            }
            if text[lexer.at - 1] == b'\n' {
                last.at = lexer.at;
                last.indents.clone_from(&lexer.indents);
            }
        }
        Some(last)
    }

    /// Reads the tokens of the next line that has any; `Some(false)` at the end, `None` in doubt.
    fn significant_line(&mut self, line: &mut Vec<u8>) -> Option<bool> {
        line.clear();
        while line.is_empty() {
            if self.at >= self.text.len() {
                return Some(false);
            }
            self.logical_line(line)?;
        }
        Some(true)
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Reads a line with all its continuations; leaves `line` empty where it is blank, a comment or a lone string.
    fn logical_line(&mut self, line: &mut Vec<u8>) -> Option<()> {
        line.clear();
        let column = self.indentation();
        let mut is_docstring = true;
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
                _ => {
                    let start = line.len();
                    self.token(line)?;
                    is_docstring &= is_lone_string(&line[start..]);
                    line.push(END);
                }
            }
        }
        if self.depth > 0 {
            return None;
        }
        if is_docstring {
            line.clear();
            return Some(());
        }
        self.indent_to(column, line)
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

    /// Opens or closes blocks; the marks follow the line's own tokens, which is as good as before them.
    fn indent_to(&mut self, column: usize, line: &mut Vec<u8>) -> Option<()> {
        if column > *self.indents.last()? {
            self.indents.push(column);
            line.push(INDENT);
        }
        while column < *self.indents.last()? {
            self.indents.pop();
            line.push(DEDENT);
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

    /// Appends one token.
    fn token(&mut self, line: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        if let Some(length) = self.string_prefix() {
            return self.string(length, line);
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
                // Control characters would be taken for our own marks.
                0..0x20 => return None,
                b'(' | b'[' | b'{' => self.depth += 1,
                b')' | b']' | b'}' => self.depth = self.depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
        }
        line.extend_from_slice(&self.text[start..self.at]);
        Some(())
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

    /// Appends a string whose prefix has `length` letters.
    fn string(&mut self, length: usize, line: &mut Vec<u8>) -> Option<()> {
        let start = self.at;
        let mut letters = [0; 2];
        letters[..length].copy_from_slice(&self.text[start..start + length]);
        letters.make_ascii_lowercase();
        let prefix = &letters[..length];
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
        let is_plain = !is_formatted && !content.iter().any(|byte| matches!(byte, 0 | b'\\' | b'"' | b'\'' | b'\r'));
        if is_plain {
            // The kind of quotes does not matter, nor does `u`.
            line.push(STRING);
            line.extend_from_slice(prefix.strip_prefix(b"u").unwrap_or(prefix));
            line.push(STRING);
            line.extend_from_slice(content);
        } else if content.contains(&END) {
            return None;
        } else {
            line.extend_from_slice(&self.text[start..self.at]);
        }
        Some(())
    }

    /// Skips `{…}` of a formatted string, with the strings and brackets in it.
    fn replacement_field(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            if let Some(length) = self.string_prefix() {
                self.string(length, &mut Vec::new())?;
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
fn is_lone_string(token: &[u8]) -> bool {
    let letters = token.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_string = matches!(token.get(letters), Some(b'"' | b'\''))
        && !token[..letters].iter().any(|letter| matches!(letter.to_ascii_lowercase(), b'f' | b't' | b'b'));
    is_string && !token.windows(3).any(|part| part == b">>>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(old: &str, new: &str) -> bool {
        let found = is_same_code(old.as_bytes(), new.as_bytes());
        assert_eq!(found, is_same_code(new.as_bytes(), old.as_bytes()), "{old} | {new}");
        // What comes before both must not matter.
        let before = "import x\n\nclass A:\n    def g(self):\n        pass\n\n";
        let after = [before, old, "\n\ny = 1\n"].concat();
        assert_eq!(found, is_same_code(after.as_bytes(), [before, new, "\n\ny = 1 # c\n"].concat().as_bytes()));
        found
    }

    const CODE: &str = "def f(a, b=1):\n    \"\"\"Doc.\"\"\"\n    if a:\n        return 'x' + \\\n            b  # why\n    return [1,\n            2]\n";

    #[test]
    fn comments_docstrings_and_layout_do_not_matter() {
        for new in [
            "# new\ndef f(a, b = 1):\n  'Other doc.'\n  if a:\n      return \"x\" + b\n\n  return [1, 2]\n",
            "def f(a, b=1):\r\n\tif a: # c\r\n\t\treturn u'x' + b\r\n\treturn [ # c\r\n1,2]",
            "\u{c}\"\"\"Module.\"\"\"\ndef f(a,\n      b=1):\n    # c\n    if a:\n        return 'x' + b\n    return [1, 2]\n",
        ] {
            assert!(same(CODE, new), "{new}");
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
            assert!(!is_same_code(text.as_bytes(), text.as_bytes()), "{text}");
            assert!(!is_same_code(text.as_bytes(), format!("# c\n{text}").as_bytes()), "{text}");
        }
    }
}

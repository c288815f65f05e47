//! Bounded head and tail of a stream.

use std::{collections::VecDeque, fmt::Write};

/// What is kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub head: Vec<u8>,
    /// Empty while everything fits into `head`.
    pub tail: Vec<u8>,
    pub total_bytes: u64,
}

impl Capture {
    /// Returns head and tail with a line between them that says how many bytes are left out.
    ///
    /// Bytes that are not UTF-8 become U+FFFD; a character that the cut splits is left out whole.
    pub fn text(&self) -> String {
        let kept = self.head.len() as u64 + self.tail.len() as u64;
        if kept >= self.total_bytes {
            return String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned();
        }
        let head = without_split_end(&self.head);
        let tail = without_split_start(&self.tail);
        let left_out = self.total_bytes - head.len() as u64 - tail.len() as u64;
        let mut text = String::from_utf8_lossy(head).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "[… {left_out} bytes left out …]");
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }
}

/// Cuts the beginning of a UTF-8 sequence whose rest is missing off the end.
fn without_split_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if length > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Cuts the end of a UTF-8 sequence whose beginning is missing off the start.
fn without_split_start(bytes: &[u8]) -> &[u8] {
    let stray = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    &bytes[stray..]
}

/// Takes a stream of any length in and keeps a [`Capture`].
#[derive(Debug)]
pub(crate) struct Recorder {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max_head: usize,
    max_tail: usize,
    total_bytes: u64,
}

impl Recorder {
    pub(crate) fn new(max_bytes: usize) -> Recorder {
        let max_tail = max_bytes / 2;
        let max_head = max_bytes - max_tail;
        Recorder { head: Vec::new(), tail: VecDeque::new(), max_head, max_tail, total_bytes: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.max_head - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.max_tail)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.max_tail);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub(crate) fn finish(self) -> Capture {
        let Recorder { mut head, tail, total_bytes, .. } = self;
        let mut tail = Vec::from(tail);
        if total_bytes == (head.len() + tail.len()) as u64 {
            head.append(&mut tail);
        }
        Capture { head, tail, total_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(max_bytes: usize, chunk: usize, bytes: &[u8]) -> Capture {
        let mut recorder = Recorder::new(max_bytes);
        bytes.chunks(chunk).for_each(|chunk| recorder.push(chunk));
        recorder.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        for chunk in [1, 3, 100] {
            let capture = captured(10, chunk, b"0123456789");
            assert_eq!(capture, Capture { head: b"0123456789".to_vec(), tail: vec![], total_bytes: 10 });
            assert_eq!(capture.text(), "0123456789");
        }
    }

    #[test]
    fn b070_head_and_tail_do_not_depend_on_the_chunks() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for chunk in [1, 2, 7, 64, 1000] {
            let capture = captured(9, chunk, &bytes);
            assert_eq!(capture.head, &bytes[..5]);
            assert_eq!(capture.tail, &bytes[996..]);
            assert_eq!(capture.total_bytes, 1000);
        }
    }

    #[test]
    fn b069_b070_text_names_the_gap_and_drops_split_characters() {
        let capture = captured(10, 4096, "日本語日本語日本語".as_bytes());
        assert_eq!(capture.text(), "日\n[… 21 bytes left out …]\n語");
        assert_eq!(captured(8, 1, b"ab\ncdefgh\nyz").text(), "ab\nc\n[… 4 bytes left out …]\nh\nyz");
    }

    #[test]
    fn damaged_bytes_at_the_cut_stay_visible() {
        let capture = captured(8, 64, b"abc\xffzzzzzz\xfexyz");
        assert_eq!(capture.text(), "abc\u{fffd}\n[… 6 bytes left out …]\n\u{fffd}xyz");
    }
}

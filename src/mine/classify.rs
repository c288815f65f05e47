//! What messages and contents say without a parser. Pure and table-driven.

/// Words of a message that speak of a fix.
const FIX_WORDS: [&str; 34] = [
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "bugfix",
    "hotfix",
    "bug",
    "bugs",
    "issue",
    "issues",
    "close",
    "closes",
    "closed",
    "resolve",
    "resolves",
    "resolved",
    "regression",
    "regressions",
    "crash",
    "crashes",
    "crashed",
    "error",
    "errors",
    "exception",
    "wrong",
    "wrongly",
    "incorrect",
    "incorrectly",
    "broken",
    "correct",
    "corrects",
    "fail",
    "fails",
    "failure",
];

/// Says whether content stands for a large file kept elsewhere (Git LFS), also when it is malformed.
pub fn is_lfs_pointer(content: &[u8]) -> bool {
    content.len() < 1024
        && (content.starts_with(b"version https://git-lfs.github.com/spec/")
            || content.starts_with(b"version https://hawser.github.com/spec/"))
}

/// Says whether a message speaks of a fix, by whole words.
pub fn mentions_fix(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message).to_lowercase();
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| FIX_WORDS.contains(&word))
}

/// Returns a message's first line as readable text.
pub fn subject(message: &[u8]) -> String {
    String::from_utf8_lossy(message).lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_word_by_word() {
        for message in ["Fix #12", "closes GH-3", "Handle wrong input", "resolved: crash"] {
            assert!(mentions_fix(message.as_bytes()), "{message}");
        }
        for message in ["Add prefix option", "Debugging aid", "Refixture", ""] {
            assert!(!mentions_fix(message.as_bytes()), "{message}");
        }
        assert_eq!(subject(b"\n\n  Title \nbody"), "Title");
        assert_eq!(subject(b"caf\xe9"), "caf\u{fffd}");
    }

    #[test]
    fn b018_pointers_are_known_by_their_text() {
        assert!(is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"));
        assert!(is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1"));
        assert!(!is_lfs_pointer(b"version 3\n"));
    }
}

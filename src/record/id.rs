//! Digests and the ids derived from them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest as 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(String);

impl Digest {
    /// Digests the parts, each preceded by its length, so that no two lists of parts collide.
    pub fn of(parts: &[&[u8]]) -> Digest {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Digest(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Digests a value by its JSON form.
    pub fn of_json(value: &impl Serialize) -> Digest {
        let json = serde_json::to_vec(value).expect("records serialise to JSON");
        Digest::of(&[&json])
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first twelve digits, for names that people read.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// Returns a number drawn from the digest, for seeded choices.
    pub fn number(&self) -> u64 {
        u64::from_str_radix(&self.0[..16], 16).expect("sixteen hexadecimal digits")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// Returns `owner__name-<12 digits of the fix commit>`, the id of a candidate and of the task made from it.
///
/// Characters other than letters, digits, `.`, `_` and `-` become `_`, so that the id is a safe file name.
pub fn instance_id(repo: &str, fix_commit: &str) -> String {
    let slug: String = repo
        .replace('/', "__")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect();
    format!("{slug}-{}", fix_commit.get(..12).unwrap_or(fix_commit))
}

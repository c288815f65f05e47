//! Bytes that are nearly always text: paths, messages, patches.
//!
//! Git promises no encoding. A [`ByteText`] keeps the bytes and turns them into a `String` for JSON and Parquet by a
//! reversible escape: a byte that is not valid UTF-8 becomes the private-use character `U+10FF00 + byte`, and the
//! (never assigned) characters `U+10FF00..=U+10FFFF` themselves are written as their four escaped bytes. Valid text is
//! unchanged.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const ESCAPE: u32 = 0x10_FF00;

/// Bytes with a reversible text form.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteText(pub Vec<u8>);

impl ByteText {
    pub fn new(bytes: impl Into<Vec<u8>>) -> ByteText {
        ByteText(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reversible text form.
    pub fn escaped(&self) -> String {
        let mut text = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if u32::from(character) >= ESCAPE {
                    let mut buffer = [0; 4];
                    character.encode_utf8(&mut buffer).bytes().for_each(|byte| text.push(escape(byte)));
                } else {
                    text.push(character);
                }
            }
            chunk.invalid().iter().for_each(|byte| text.push(escape(*byte)));
        }
        text
    }

    /// Returns the bytes behind [`ByteText::escaped`].
    pub fn from_escaped(text: &str) -> ByteText {
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            match u8::try_from(u32::from(character).wrapping_sub(ESCAPE)) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    let mut buffer = [0; 4];
                    bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
            }
        }
        ByteText(bytes)
    }

    /// Returns readable text for people; damaged bytes become U+FFFD.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

fn escape(byte: u8) -> char {
    char::from_u32(ESCAPE + u32::from(byte)).expect("U+10FF00..=U+10FFFF are characters")
}

impl From<Vec<u8>> for ByteText {
    fn from(bytes: Vec<u8>) -> ByteText {
        ByteText(bytes)
    }
}

impl From<&str> for ByteText {
    fn from(text: &str) -> ByteText {
        ByteText(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

impl fmt::Display for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lossy())
    }
}

impl Serialize for ByteText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.escaped())
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteText, D::Error> {
        Ok(ByteText::from_escaped(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_unchanged_and_any_bytes_come_back() {
        assert_eq!(ByteText::from("naïve 日本\u{0}\r\n").escaped(), "naïve 日本\u{0}\r\n");
        for bytes in [b"caf\xe9.css".to_vec(), vec![0xf4, 0x8f, 0xbc, 0x80], (0..=255).collect(), "\u{10FFFF}x".into()]
        {
            let text = ByteText::new(bytes);
            assert_eq!(ByteText::from_escaped(&text.escaped()), text);
            let json = serde_json::to_string(&text).expect("a string");
            assert_eq!(serde_json::from_str::<ByteText>(&json).expect("a string"), text);
        }
    }
}

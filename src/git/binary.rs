//! The binary blocks of git patches: base 85, deflate, deltas.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Inflated size above which a block is refused, bytes.
const MAX_INFLATED: u64 = 256 << 20;

/// How a binary block makes the new content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The content itself.
    Literal(Vec<u8>),
    /// Instructions that copy from the old content.
    Delta(Vec<u8>),
}

impl Block {
    /// Returns the new content.
    ///
    /// # Errors
    /// The delta was made for another old content, or is malformed.
    pub fn apply(&self, old: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Block::Literal(content) => Ok(content.clone()),
            Block::Delta(delta) => apply_delta(old, delta).ok_or_else(|| "binary delta does not fit".to_owned()),
        }
    }
}

/// Decodes a block's lines (without newlines).
///
/// # Errors
/// A line is malformed, the data does not inflate, or has another size than announced.
pub fn decode(is_delta: bool, size: u64, lines: &[&[u8]]) -> Result<Block, String> {
    if size > MAX_INFLATED {
        return Err(format!("binary block of {size} bytes is too large"));
    }
    let mut deflated = Vec::new();
    for line in lines {
        decode_line(line, &mut deflated).ok_or("malformed line in a binary block")?;
    }
    let mut data = Vec::new();
    ZlibDecoder::new(deflated.as_slice())
        .take(size + 1)
        .read_to_end(&mut data)
        .map_err(|error| format!("binary block does not inflate: {error}"))?;
    if data.len() as u64 != size {
        return Err(format!("binary block announces {size} bytes and has {}", data.len()));
    }
    Ok(if is_delta { Block::Delta(data) } else { Block::Literal(data) })
}

fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&letter, digits) = line.split_first()?;
    let length = match letter {
        b'A'..=b'Z' => usize::from(letter - b'A') + 1,
        b'a'..=b'z' => usize::from(letter - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let start = out.len();
    for group in digits.chunks(5) {
        let mut value: u32 = 0;
        for digit in group {
            let rank = ALPHABET.iter().position(|letter| letter == digit)?;
            value = value.checked_mul(85)?.checked_add(u32::try_from(rank).ok()?)?;
        }
        out.extend(value.to_be_bytes());
    }
    out.truncate(start + length);
    Some(())
}

fn apply_delta(old: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    let old_size = take_size(&mut rest)?;
    let new_size = take_size(&mut rest)?;
    if old_size != old.len() as u64 || new_size > MAX_INFLATED {
        return None;
    }
    let mut new = Vec::new();
    while let Some((&instruction, tail)) = rest.split_first() {
        rest = tail;
        if instruction & 0x80 != 0 {
            let offset = take_bytes(&mut rest, instruction & 0x0f, 4)?;
            let length = take_bytes(&mut rest, (instruction >> 4) & 0x07, 3)?;
            let length = if length == 0 { 0x1_0000 } else { length };
            new.extend_from_slice(old.get(offset..offset.checked_add(length)?)?);
        } else if instruction > 0 {
            let length = usize::from(instruction);
            new.extend_from_slice(rest.get(..length)?);
            rest = &rest[length..];
        } else {
            return None;
        }
        if new.len() as u64 > new_size {
            return None;
        }
    }
    (new.len() as u64 == new_size).then_some(new)
}

fn take_size(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads the little-endian number whose present bytes `flags` names.
fn take_bytes(rest: &mut &[u8], flags: u8, count: u32) -> Option<usize> {
    let mut value = 0;
    for bit in 0..count {
        if flags & (1 << bit) != 0 {
            let (&byte, tail) = rest.split_first()?;
            *rest = tail;
            value |= usize::from(byte) << (8 * bit);
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_copy_and_insert() {
        // Old size 5, new size 6: copy 3 bytes from offset 1, insert `xyz`.
        let delta = [5, 6, 0x91, 1, 3, 3, b'x', b'y', b'z'];
        assert_eq!(apply_delta(b"abcde", &delta), Some(b"bcdxyz".to_vec()));
        assert_eq!(apply_delta(b"abcd", &delta), None);
        assert_eq!(apply_delta(b"abcde", &delta[..8]), None);
        assert_eq!(apply_delta(b"abcde", &[5, 6, 0x91, 4, 3]), None);
    }

    #[test]
    fn damaged_blocks_are_refused() {
        assert!(decode(false, 1, &[b"?00000"]).is_err());
        assert!(decode(false, 1, &[b"A0000"]).is_err());
        assert!(decode(false, 1, &[b"A~~~~~"]).is_err());
        assert!(decode(false, u64::MAX, &[]).is_err());
    }
}

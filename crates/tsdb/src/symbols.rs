//! The texts of the labels of a block.

use crate::bytes::Bytes;
use crate::error::Error;

/// The texts, by number.
#[derive(Debug, Default)]
pub struct Symbols {
    texts: String,
    /// The end of each text.
    ends: Vec<u32>,
}

impl Symbols {
    /// Reads the contents of the table, without length and checksum.
    pub fn decode(table: &[u8]) -> Result<Self, Error> {
        let mut from = Bytes::new("the table of symbols", table);
        let count = from.u32()? as usize;
        // Each has at least the byte of its length.
        if count > from.remaining() {
            return Err(from.malformed());
        }
        let mut symbols = Self { texts: String::with_capacity(table.len()), ends: Vec::with_capacity(count) };
        for _ in 0..count {
            let length = from.uvarint()?;
            let text = std::str::from_utf8(from.take(length)?).map_err(|_| from.malformed())?;
            symbols.texts.push_str(text);
            symbols.ends.push(symbols.texts.len() as u32);
        }
        Ok(symbols)
    }

    /// Returns a text.
    pub fn get(&self, number: u32) -> Result<&str, Error> {
        let number = number as usize;
        let start = match number {
            0 => 0,
            _ => *self.ends.get(number - 1).ok_or(Error::Malformed { what: "the number of a symbol" })?,
        };
        let end = *self.ends.get(number).ok_or(Error::Malformed { what: "the number of a symbol" })?;
        Ok(&self.texts[start as usize..end as usize])
    }
}

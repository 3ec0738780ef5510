//! The results of template functions for a row, with their bounds.
//!
//! A [`Text`] can only be created here, so that every function is bounded: a text has at most
//! [`TEXT_BYTES_MAX`], all results of a row together have at most [`RESULTS_BYTES_MAX`], and every byte is
//! reserved from the query's memory before it is allocated. A function that creates a list or map reserves
//! it with [`Results::take`]. Exceeding a bound fails the template for the row; if the query has no memory
//! left, it ends.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use sandur_memory::job::{JobMemory, spend};

/// The longest text that a function may create, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// The most bytes that all functions may create for a row.
pub const RESULTS_BYTES_MAX: usize = 32 << 20;
/// The bytes of a value without its text.
pub const VALUE_BYTES: usize = 64;

/// A text in a template; cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(Arc<String>);

impl Text {
    /// A constant in the template.
    pub fn constant(text: String) -> Self {
        Self(Arc::new(text))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The results created for the current row.
#[derive(Debug, Default)]
pub struct Results {
    made: Cell<usize>,
    held: RefCell<JobMemory>,
}

impl Results {
    /// Starts the next row. The reservation is kept for the next row's results.
    pub fn next_row(&self) {
        self.made.set(0);
    }

    /// Reserves memory for a result; fails if a bound of the row or the query is exceeded.
    pub fn take(&self, bytes: usize) -> Result<(), String> {
        let made = self.made.get().saturating_add(bytes);
        if made > RESULTS_BYTES_MAX {
            return Err(format!(
                "the results of the template's functions take more than {RESULTS_BYTES_MAX} bytes for a row"
            ));
        }
        let held = spend(bytes).and_then(|()| self.held.borrow_mut().at_least(made as u64));
        held.map_err(|stopped| stopped.to_string())?;
        self.made.set(made);
        Ok(())
    }

    /// Copies a text.
    pub fn copy(&self, text: &str) -> Result<Text, String> {
        self.take(VALUE_BYTES + text.len())?;
        Ok(Text(Arc::new(text.to_owned())))
    }

    /// Converts bytes to text; bytes that are not UTF-8 are replaced.
    pub fn lossy(&self, bytes: &[u8]) -> Result<Text, String> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return self.copy(text);
        }
        self.make(|out| {
            for chunk in bytes.utf8_chunks() {
                out.write(chunk.valid())?;
                if !chunk.invalid().is_empty() {
                    out.write("\u{fffd}")?;
                }
            }
            Ok(())
        })
    }

    /// Creates the text that `write` writes.
    pub fn make(&self, write: impl FnOnce(&mut TextSink<'_>) -> Result<(), String>) -> Result<Text, String> {
        self.take(VALUE_BYTES)?;
        let mut sink = TextSink { text: String::new(), results: self, refusal: None };
        write(&mut sink)?;
        Ok(Text(Arc::new(sink.text)))
    }
}

/// Collects the text of a result.
pub struct TextSink<'a> {
    text: String,
    results: &'a Results,
    /// Why the last piece was not accepted.
    refusal: Option<String>,
}

impl TextSink<'_> {
    /// Appends a piece.
    pub fn write(&mut self, piece: &str) -> Result<(), String> {
        let length = self.text.len() + piece.len();
        if length > TEXT_BYTES_MAX {
            return Err(format!("the text would be longer than {TEXT_BYTES_MAX} bytes"));
        }
        let capacity = self.text.capacity();
        if length > capacity {
            let more = length.max(capacity.saturating_mul(2));
            self.results.take(more)?;
            self.text.reserve_exact(more - self.text.len());
        }
        self.text.push_str(piece);
        Ok(())
    }

    /// Appends a character.
    pub fn character(&mut self, c: char) -> Result<(), String> {
        self.write(c.encode_utf8(&mut [0; 4]))
    }

    /// Appends a piece `count` times.
    pub fn repeat(&mut self, piece: &str, count: usize) -> Result<(), String> {
        if piece.len().saturating_mul(count) > TEXT_BYTES_MAX - self.text.len() {
            return Err(format!("the text would be longer than {TEXT_BYTES_MAX} bytes"));
        }
        (0..if piece.is_empty() { 0 } else { count }).try_for_each(|_| self.write(piece))
    }

    /// Appends formatted text.
    pub fn print(&mut self, printed: fmt::Arguments<'_>) -> Result<(), String> {
        fmt::Write::write_fmt(self, printed).map_err(|_| self.refusal.take().unwrap_or_default())
    }
}

impl fmt::Write for TextSink<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.write(piece).map_err(|refusal| {
            self.refusal = Some(refusal);
            fmt::Error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_rows_are_bounded() {
        let results = Results::default();
        let half = results.make(|out| out.repeat("x", TEXT_BYTES_MAX / 2)).unwrap();
        let twice = results.make(|out| out.write(&half).and_then(|()| out.write(&half))).unwrap();
        assert_eq!(twice.len(), TEXT_BYTES_MAX);
        let over = results.make(|out| out.write(&twice).and_then(|()| out.write("x"))).unwrap_err();
        assert_eq!(over, "the text would be longer than 1048576 bytes");
        assert_eq!(results.make(|out| out.repeat("ab", usize::MAX)).unwrap_err(), over);
        let mut made = 0;
        let refusal = loop {
            match results.copy(&twice) {
                Ok(_) => made += 1,
                Err(refusal) => break refusal,
            }
        };
        assert!(made < 32 && refusal.contains("33554432 bytes for a row"), "{made} {refusal}");
        results.next_row();
        assert!(results.copy(&twice).is_ok());
    }

    #[test]
    fn printed_text_is_bounded() {
        let results = Results::default();
        let text = results.make(|out| out.print(format_args!("{:>5}|{:02x}", 7, 10))).unwrap();
        assert_eq!(&*text, "    7|0a");
        let long = "x".repeat(TEXT_BYTES_MAX);
        let over = results.make(|out| out.print(format_args!("{long}{}", 1))).unwrap_err();
        assert!(over.contains("longer than 1048576"), "{over}");
        assert_eq!(&*results.lossy(b"a\xffb").unwrap(), "a\u{fffd}b");
    }
}

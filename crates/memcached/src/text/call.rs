//! What a command of the text protocol is, and what it has to answer a line with.
//!
//! Invariants: answers have memcached's exact words. `noreply` as the last word keeps a classic command
//! silent, errors included.

use crate::command_context::CommandContext;
use crate::next::{Next, Receipt, Received};
use crate::output::Output;
use crate::words::Words;

/// Answers.
pub(crate) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
pub(crate) const ERROR: &[u8] = b"ERROR";

/// One command of the text protocol.
pub(crate) trait Command {
    /// The first word of its line.
    const NAME: &'static str;
    /// The words after it, for the reference.
    const ARGUMENTS: &'static str = "";
    /// What it does, for the reference.
    const ABOUT: &'static str;
    /// Fewest words, the name included; with fewer the line is malformed.
    const WORDS: usize = 1;
    /// Whether `noreply` as the last word keeps it silent.
    const HAS_NOREPLY: bool = true;

    /// Answers a line.
    fn run(call: &mut Call<'_>) -> Next;

    /// Answers a line that has asked for a value by [`Next::Receive`], now that this has come whole.
    fn finish(_: Receipt<'_>) -> Next {
        Next::Done
    }
}

/// A command in the table.
pub(crate) struct Entry {
    pub name: &'static str,
    pub arguments: &'static str,
    pub about: &'static str,
    pub words: usize,
    pub has_noreply: bool,
    pub run: fn(&mut Call<'_>) -> Next,
    pub finish: fn(Receipt<'_>) -> Next,
}

impl Entry {
    /// The entry of a command.
    pub const fn of<C: Command>() -> Self {
        Self {
            name: C::NAME,
            arguments: C::ARGUMENTS,
            about: C::ABOUT,
            words: C::WORDS,
            has_noreply: C::HAS_NOREPLY,
            run: C::run,
            finish: C::finish,
        }
    }
}

/// One command line while it is answered.
pub(crate) struct Call<'a> {
    pub context: &'a CommandContext<'a>,
    pub output: &'a mut Output,
    /// The line without its end.
    pub line: &'a [u8],
    /// The words after the name.
    pub words: Words<'a>,
    /// What follows the line in the input.
    pub rest: &'a [u8],
    /// How many bytes of `rest` the command has used.
    pub used: usize,
    /// Whether the answer would be the first thing in the output.
    pub first_in_output: bool,
}

impl Call<'_> {
    /// Whether the last word keeps the command silent.
    pub fn is_silent(&self) -> bool {
        is_silent(self.line)
    }

    /// Answers with a line, unless the client wants none.
    pub fn answer(&mut self, line: &[u8]) -> Next {
        if !self.is_silent() {
            self.output.line(line);
        }
        Next::Done
    }

    /// Answers that the line is malformed.
    pub fn bad_format(&mut self) -> Next {
        self.answer(BAD_FORMAT)
    }

    /// Finishes with the value if it has come whole with the line, else says what to receive.
    pub fn receive(&mut self, length: usize, finish: fn(Receipt<'_>) -> Next) -> Next {
        if self.rest.len() < length {
            return Next::Receive { head: self.line.into(), length };
        }
        self.used = length;
        let value = Received::Borrowed(&self.rest[..length]);
        finish(Receipt { head: self.line, value, output: self.output, context: self.context })
    }
}

/// Whether the last word of a line is `noreply`.
pub(crate) fn is_silent(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.ends_with(b" noreply")
}

/// The next line without its end, and how many bytes it takes.
pub(crate) fn line(unread: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', unread)?;
    let line = &unread[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

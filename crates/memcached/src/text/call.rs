//! An entry in the table of text commands, and the call that answers one line.
//!
//! Invariants: answers have memcached's exact texts. With `noreply` as the last word a classic command
//! sends no answer, not even an error.

use crate::command_context::CommandContext;
use crate::next::{Next, Receipt, Received};
use crate::output::Output;
use crate::words::Words;

/// Answers.
pub(crate) const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
pub(crate) const ERROR: &[u8] = b"ERROR";

/// Answers a call.
type Run = fn(&mut Call<'_>) -> Next;

/// A command in the table of commands.
pub(crate) struct Entry {
    /// The first word of its line.
    pub name: &'static str,
    /// The words after it, for the reference.
    pub arguments: &'static str,
    /// What it does, for the reference.
    pub about: &'static str,
    /// The least number of words, including the name; a line with fewer is malformed.
    pub words: usize,
    /// Whether `noreply` as the last word suppresses the answer.
    pub has_noreply: bool,
    /// Answers a line.
    pub run: Run,
    /// Answers a line that requested a value by [`Next::Receive`], once the value is complete.
    pub finish: fn(Receipt<'_>) -> Next,
}

/// A command of one word or more.
pub(crate) const fn line(
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: Run,
) -> Entry {
    Entry { name, arguments, about, words: 1, has_noreply: true, run, finish: |_| Next::Done }
}

/// A meta command.
pub(crate) const fn meta(
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: Run,
) -> Entry {
    Entry { has_noreply: false, ..line(name, arguments, about, run) }
}

impl Entry {
    /// Sets the least number of words.
    pub const fn words(self, words: usize) -> Self {
        Self { words, ..self }
    }

    /// Adds the function that receives a value.
    pub const fn then(self, finish: fn(Receipt<'_>) -> Next) -> Self {
        Self { finish, ..self }
    }
}

/// A command line that is being answered.
pub(crate) struct Call<'a> {
    pub context: &'a CommandContext<'a>,
    pub output: &'a mut Output,
    /// The line without its line end.
    pub line: &'a [u8],
    /// The words after the name.
    pub words: Words<'a>,
    /// The bytes after the line in the input.
    pub rest: &'a [u8],
    /// Number of bytes of `rest` that the command used.
    pub used: usize,
    /// Whether the output is empty before this answer.
    pub first_in_output: bool,
}

impl Call<'_> {
    /// Returns whether the last word suppresses the answer.
    pub fn is_silent(&self) -> bool {
        is_silent(self.line)
    }

    /// Answers with a line, unless the client suppressed the answer.
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

    /// Finishes the command if the input has the complete value, else requests it.
    pub fn receive(&mut self, length: usize, finish: fn(Receipt<'_>) -> Next) -> Next {
        if self.rest.len() < length {
            return Next::Receive { head: self.line.into(), length };
        }
        self.used = length;
        let value = Received::Borrowed(&self.rest[..length]);
        finish(Receipt { head: self.line, value, output: self.output, context: self.context })
    }
}

/// Returns whether the last word of a line is `noreply`.
pub(crate) fn is_silent(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.ends_with(b" noreply")
}

/// Returns the next line without its line end, and its length in bytes including it.
pub(crate) fn next_line(unread: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', unread)?;
    let line = &unread[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

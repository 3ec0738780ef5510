//! An entry in the table of binary commands, and the call that answers one packet.
//!
//! Invariant: numbers are in network byte order.

use crate::command_context::CommandContext;
use crate::next::Next;
use crate::operations::store::Verb;
use crate::output::{Bytes, Output};

use super::header::{Header, Status};

/// Answers a packet.
pub(crate) type Run = fn(&mut Call<'_>) -> Next;

/// A command in the table of commands.
pub(crate) struct Entry {
    pub opcode: u8,
    /// The opcode of the quiet form, which suppresses the expected answer.
    pub quiet: Option<u8>,
    /// The name, for the reference.
    pub name: &'static str,
    /// The permitted lengths of the extras.
    pub extras: &'static [u8],
    pub shape: Shape,
    /// Whether a client may send it before it has authenticated.
    pub open: bool,
    pub does: Does,
}

/// How a packet is answered.
pub(crate) enum Does {
    /// Stores its value by this operation, if the packet has no version number.
    Store(Verb),
    /// By this function.
    Run(Run),
}

/// The parts that a packet must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Neither key nor value.
    Bare,
    /// A key only.
    Key,
    /// An optional key.
    MaybeKey,
    /// A key and a value.
    KeyAndValue,
}

/// A packet that is being answered.
pub(crate) struct Call<'a> {
    /// Whether the client has authenticated.
    pub authenticated: &'a mut bool,
    pub context: &'a CommandContext<'a>,
    pub output: &'a mut Output,
    pub header: Header,
    /// Header, extras and key.
    pub head: &'a [u8],
    pub extras: &'a [u8],
    pub key: &'a [u8],
    /// The bytes after the key in the input.
    pub rest: &'a [u8],
    /// Number of bytes of `rest` that the command used.
    pub used: usize,
    pub quiet: bool,
}

impl Call<'_> {
    /// Answers with an error.
    pub fn error(&mut self, status: Status) -> Next {
        self.header.write_error(status, self.output.tail());
        Next::Done
    }

    /// Answers with success, unless the quiet form was used.
    pub fn done(&mut self, cas: u64) -> Next {
        if !self.quiet {
            self.header.write(Status::Ok, cas, &[], &[], &[], self.output.tail());
        }
        Next::Done
    }

    /// Answers with a value.
    pub fn value(&mut self, value: &[u8]) -> Next {
        self.header.write(Status::Ok, 0, &[], &[], value, self.output.tail());
        Next::Done
    }

    /// Returns the length of the value in bytes.
    pub fn value_length(&self) -> usize {
        self.header.value_length()
    }
}

/// Reads four bytes of extras in network order.
pub(crate) fn number_32(extras: &[u8], at: usize) -> u32 {
    extras.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Reads eight bytes of extras in network order.
pub(crate) fn number_64(extras: &[u8], at: usize) -> u64 {
    extras.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Writes a success or an error to the place of a delayed answer.
pub(crate) fn write_outcome(header: &Header, quiet: bool, outcome: Result<u64, Status>, out: &mut Bytes) {
    match outcome {
        Ok(_) if quiet => {}
        Ok(cas) => header.write(Status::Ok, cas, &[], &[], &[], out),
        Err(status) => header.write_error(status, out),
    }
}

//! What remains to be done after a command. It is the only interface between commands and sessions.
//!
//! Invariant: nothing here depends on a protocol, a command or the session.

use bytes::Bytes;

use crate::command_context::CommandContext;
use crate::input::Input;
use crate::output::Output;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The bytes of the client are not in any of our protocols.
    Error,
    /// The client requested it or disconnected.
    Normal,
    /// The client was silent for too long.
    Idle,
    /// The client stopped the server.
    Shutdown,
}

impl Ending {
    /// Returns the name that watchers see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Normal => "normal",
            Self::Idle => "idle_timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What remains to be done after a command.
pub(crate) enum Next {
    /// Nothing remains.
    Done,
    /// The command must be called again once there is more input.
    NeedsInput,
    /// Receive a value of `length` bytes, including its line end. `head` is the command.
    Receive { head: Box<[u8]>, length: usize },
    /// Discard `length` bytes of input.
    Skip { length: usize },
    /// Continue the command, whose line stays in the input, once the output has room.
    Resume(Box<dyn Unfinished>),
    /// Wait until all answers are there.
    Wait,
    /// Send what a watcher or a dump produces, for the rest of the connection.
    Stream(Box<dyn Source>),
    /// End the connection.
    End(Ending),
}

/// A command that paused because the output was full.
pub(crate) trait Unfinished: Send {
    /// Continues until the output is full again, or until the command is done; it then consumes its
    /// line.
    fn proceed(&mut self, input: &mut Input, output: &mut Output, context: &CommandContext<'_>) -> Step;
}

/// Whether an [`Unfinished`] command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// The command is done.
    Done,
}

/// A source of lines for the rest of the connection, or until it ends.
pub(crate) trait Source: Send {
    /// Appends lines to `out`. Returns `false` when there will be no more.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;
}

/// A complete value with its line end.
pub(crate) enum Received<'a> {
    /// A slice of the input.
    Borrowed(&'a [u8]),
    /// A buffer of its own.
    Owned(Vec<u8>),
}

impl Received<'_> {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    /// Returns the first `length` bytes, without copying an owned buffer.
    pub fn into_value(self, length: usize) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(&bytes[..length]),
            Self::Owned(mut bytes) => {
                bytes.truncate(length);
                Bytes::from(bytes)
            }
        }
    }
}

/// A command that requested a value, and the value.
pub(crate) struct Receipt<'a> {
    /// The command, as passed in [`Next::Receive`].
    pub head: &'a [u8],
    pub value: Received<'a>,
    pub output: &'a mut Output,
    pub context: &'a CommandContext<'a>,
}

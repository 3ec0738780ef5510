//! What a command leaves to do: all that commands and sessions know of each other.
//!
//! Invariant: nothing here knows a protocol, a command or the session.

use bytes::Bytes;

use crate::command_context::CommandContext;
use crate::input::Input;
use crate::output::Output;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What the client sent is no protocol of ours.
    Error,
    /// The client wanted it or went away.
    Normal,
    /// The client was silent for too long.
    Idle,
    /// The client stopped the server.
    Shutdown,
}

impl Ending {
    /// As watchers see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Normal => "normal",
            Self::Idle => "idle_timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What a command leaves to do.
pub(crate) enum Next {
    /// Nothing.
    Done,
    /// The same again once more input is there.
    NeedsInput,
    /// Receive a value of `length` bytes, its end included. `head` is the command.
    Receive { head: Box<[u8]>, length: usize },
    /// Throw away `length` bytes.
    Skip { length: usize },
    /// Go on with the command, whose line stays in the input, once the output has room.
    Resume(Box<dyn Unfinished>),
    /// Wait until all answers are there.
    Wait,
    /// Send what a watcher or a dump finds.
    Stream(Box<dyn Source>),
    /// End the connection.
    End(Ending),
}

/// A command that stopped for want of room in the output.
pub(crate) trait Unfinished: Send {
    /// Goes on until the output is full again or the command is done, and then consumes its line.
    fn proceed(&mut self, input: &mut Input, output: &mut Output, context: &CommandContext<'_>) -> Step;
}

/// How far an [`Unfinished`] command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// The command is done.
    Done,
}

/// Something that sends lines for as long as the connection lasts, or until it is done.
pub(crate) trait Source: Send {
    /// Moves lines to `out`; `false` when there will be no more.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;
}

/// A value that has come whole, with its end.
pub(crate) enum Received<'a> {
    /// In the input.
    Borrowed(&'a [u8]),
    /// In a buffer of its own.
    Owned(Vec<u8>),
}

impl Received<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    /// The first `length` bytes, without copying a buffer that is ours already.
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

/// A command that asked for a value, and the value.
pub(crate) struct Receipt<'a> {
    /// The command, as [`Next::Receive`] had it.
    pub head: &'a [u8],
    pub value: Received<'a>,
    pub output: &'a mut Output,
    pub context: &'a CommandContext<'a>,
}

//! The conversation with one client, without its socket: bytes in, answers out.
//!
//! **Life of a request.** [`Session::advance`] finds a complete command in the input and answers it.
//! A storage command whose value has not come whole leaves the session receiving; the command's line
//! is kept and read again once the value is there, so a command is the same function of the same
//! bytes however they were split. Keys of a multiget are looked up in groups; when the client does
//! not take its answers, the session stops between two groups.
//!
//! **Invariants.** Answers are in the order of requests. After a change that waits for the device
//! nothing is read until it is done: a client sees its own writes. What is held for a client is
//! bounded: a line, one value, and what [`Output::is_full`] allows.

use super::binary;
use super::command_context::CommandContext;
use super::input::Input;
use super::next::{Ending, Next, Receipt, Received, Source, Step, Unfinished};
use super::output::Output;
use super::settings::Binding;
use super::text;
use sandur_cache::Reserved;

/// Where a session stands after it has done what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It needs more input.
    NeedsInput,
    /// It has answered as many commands as one call allows, and there are more.
    Yielded,
    /// It has more to say than the output should hold.
    Full,
    /// It waits for an answer from the device.
    Waits,
    /// It only sends from now on.
    Streams,
    /// The connection is over once the output has left.
    Ended(Ending),
}

/// The conversation with one client.
pub(super) struct Session {
    protocol: Protocol,
    phase: Phase,
    /// Whether the client may do more than authenticate.
    pub authenticated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Unknown,
    Text,
    Binary,
}

enum Phase {
    Command,
    Receiving(Receiving),
    Skipping(usize),
    Unfinished(Box<dyn Unfinished>),
    Waiting,
    Streaming(Box<dyn Source>),
    Ended(Ending),
}

/// A value on its way in.
struct Receiving {
    head: Box<[u8]>,
    value: Vec<u8>,
    length: usize,
    /// Memory of the cache that the value takes until it is stored: what came of it, and as much again. Its
    /// buffer has the whole length from the beginning, but pages that nothing was written to take no memory.
    reserved: Option<Reserved>,
}

impl Receiving {
    /// Keeps `reserved` ahead of what came; whether there was memory. What is only announced takes none: to
    /// take memory from others a client has to send as much.
    fn reserve(&mut self, context: &CommandContext<'_>) -> bool {
        let held = self.reserved.as_ref().map_or(0, Reserved::bytes) as usize;
        if self.length < RESERVED_BYTES || (held > 0 && self.value.len() <= held) {
            return true;
        }
        let wanted = self.length.min(RESERVED_BYTES.max(2 * self.value.len()));
        let Some(more) = context.cache().reserve((wanted - held) as u64) else { return false };
        match &mut self.reserved {
            Some(reserved) => reserved.join(more),
            None => self.reserved = Some(more),
        }
        true
    }
}

/// From this many missing bytes on a value is read straight into its own buffer.
const DIRECT_BYTES: usize = 16 << 10;
/// Values of at least this size take part in the cache's memory while they come in, by this much at first.
const RESERVED_BYTES: usize = 64 << 10;

impl Session {
    pub fn new(binding: Binding, authenticated: bool) -> Self {
        let protocol = match binding {
            Binding::Auto => Protocol::Unknown,
            Binding::Ascii => Protocol::Text,
            Binding::Binary => Protocol::Binary,
        };
        Self { protocol, phase: Phase::Command, authenticated }
    }

    /// Whether the client is in the middle of a value.
    pub fn is_receiving(&self) -> bool {
        matches!(self.phase, Phase::Receiving(_))
    }

    /// Does what the input allows.
    pub fn advance(
        &mut self,
        input: &mut Input,
        output: &mut Output,
        context: &CommandContext<'_>,
    ) -> Progress {
        let mut commands = 0;
        loop {
            if output.is_full() {
                return Progress::Full;
            }
            let step = match &mut self.phase {
                Phase::Command => {
                    if commands == context.settings().commands_per_turn && !input.is_empty() {
                        return Progress::Yielded;
                    }
                    commands += 1;
                    self.command(input, output, context)
                }
                Phase::Receiving(_) => self.receive(input, output, context),
                Phase::Skipping(left) => {
                    let skipped = (*left).min(input.unread().len());
                    input.consume(skipped);
                    *left -= skipped;
                    (*left == 0).then_some(Next::Done)
                }
                Phase::Unfinished(command) => match command.proceed(input, output, context) {
                    Step::More => continue,
                    Step::Done => Some(Next::Done),
                },
                Phase::Waiting => {
                    if output.waiting() > 0 {
                        return Progress::Waits;
                    }
                    Some(Next::Done)
                }
                Phase::Streaming(source) => {
                    input.consume(input.unread().len());
                    if output.has_ready() {
                        return Progress::Streams;
                    }
                    if source.fill(output.tail().buffer()) {
                        return Progress::Streams;
                    }
                    Some(Next::Done)
                }
                Phase::Ended(ending) => return Progress::Ended(*ending),
            };
            let Some(next) = step else { return Progress::NeedsInput };
            self.phase = match next {
                Next::Done => Phase::Command,
                Next::NeedsInput => return Progress::NeedsInput,
                Next::Receive { head, length } => self.start_receiving(head, length, output, context),
                Next::Skip { length } => Phase::Skipping(length),
                Next::Resume(command) => Phase::Unfinished(command),
                Next::Wait => Phase::Waiting,
                Next::Stream(source) => Phase::Streaming(source),
                Next::End(ending) => Phase::Ended(ending),
            };
        }
    }

    /// Ends it: what came whole is answered, and nothing more is taken in.
    pub fn end(&mut self, ending: Ending) {
        self.phase = Phase::Ended(ending);
    }

    /// Answers one command; `None` when it is not there whole.
    fn command(
        &mut self,
        input: &mut Input,
        output: &mut Output,
        context: &CommandContext<'_>,
    ) -> Option<Next> {
        if self.protocol == Protocol::Unknown {
            let first = *input.unread().first()?;
            self.protocol =
                if first == binary::header::REQUEST_MAGIC { Protocol::Binary } else { Protocol::Text };
        }
        match self.protocol {
            Protocol::Binary => binary::dispatch::command(&mut self.authenticated, input, output, context),
            _ if !self.authenticated => {
                text::authenticate::command(&mut self.authenticated, input, output, context)
            }
            _ => text::dispatch::command(input, output, context),
        }
    }

    fn start_receiving(
        &self,
        head: Box<[u8]>,
        length: usize,
        output: &mut Output,
        context: &CommandContext<'_>,
    ) -> Phase {
        let mut receiving = Receiving { head, value: Vec::new(), length, reserved: None };
        if !receiving.reserve(context) {
            self.refuse_for_memory(&receiving.head, output, context);
            return Phase::Skipping(length);
        }
        Phase::Receiving(receiving)
    }

    fn refuse_for_memory(&self, head: &[u8], output: &mut Output, context: &CommandContext<'_>) {
        match self.protocol {
            Protocol::Binary => binary::dispatch::refuse_for_memory(head, output, context),
            _ => text::dispatch::refuse_for_memory(head, output, context),
        }
    }

    fn receive(
        &mut self,
        input: &mut Input,
        output: &mut Output,
        context: &CommandContext<'_>,
    ) -> Option<Next> {
        let Phase::Receiving(receiving) = &mut self.phase else { return Some(Next::Done) };
        let missing = receiving.length - receiving.value.len();
        let taken = missing.min(input.unread().len());
        if receiving.value.capacity() == 0 && taken > 0 {
            receiving.value.reserve_exact(receiving.length);
        }
        receiving.value.extend_from_slice(&input.unread()[..taken]);
        input.consume(taken);
        let is_refused = !receiving.reserve(context);
        if taken < missing && !is_refused {
            return None;
        }
        let Phase::Receiving(receiving) = std::mem::replace(&mut self.phase, Phase::Command) else {
            return Some(Next::Done);
        };
        if is_refused {
            self.refuse_for_memory(&receiving.head, output, context);
            return Some(Next::Skip { length: missing - taken });
        }
        // the cache takes memory for the item itself
        drop(receiving.reserved);
        let value = Received::Owned(receiving.value);
        let receipt = Receipt { head: &receiving.head, value, output, context };
        Some(match self.protocol {
            Protocol::Binary => binary::dispatch::finish(receipt),
            _ => text::dispatch::finish(receipt),
        })
    }

    /// The buffer that a large value is read into straight from the socket, and how many bytes of it
    /// are missing. What is read beyond them must be given to [`Session::overrun`].
    pub fn sink(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let Phase::Receiving(receiving) = &mut self.phase else { return None };
        let missing = receiving.length - receiving.value.len();
        if missing < DIRECT_BYTES {
            return None;
        }
        if receiving.value.capacity() == 0 {
            receiving.value.reserve_exact(receiving.length);
        }
        Some((&mut receiving.value, missing))
    }

    /// Takes back from the value what was read beyond it.
    pub fn overrun(&mut self) -> Vec<u8> {
        match &mut self.phase {
            Phase::Receiving(receiving) if receiving.value.len() > receiving.length => {
                receiving.value.split_off(receiving.length)
            }
            _ => Vec::new(),
        }
    }
}

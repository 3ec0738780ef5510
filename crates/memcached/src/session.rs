//! The conversation with one client, independent of its socket: bytes in, answers out.
//!
//! **Life of a request.** [`Session::advance`] finds a complete command in the input and answers it. A
//! storage command whose value is not complete leaves the session in the receiving state. The command's
//! line is kept and parsed again once the value is complete, so a command does not depend on how its
//! bytes were split. The keys of a multiget are looked up in groups; if the client does not read its
//! answers, the session pauses between two groups.
//!
//! **Invariants.** Answers are in the order of requests. After a change that waits for the device, no
//! further command is executed until it is done, so a client sees its own writes. The memory held for a
//! client is bounded: a line, one value, and what [`Output::is_full`] permits.

use sandur_memory::Reservation;

use super::binary;
use super::command_context::CommandContext;
use super::input::Input;
use super::next::{Ending, Next, Receipt, Received, Source, Step, Unfinished};
use super::output::Output;
use super::settings::Binding;
use super::text;

/// Why a session stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It needs more input.
    NeedsInput,
    /// It answered as many commands as one call may, and there are more.
    Yielded,
    /// The output is full, and there are more answers.
    Full,
    /// It waits for an answer from the device.
    Waits,
    /// From now on it only sends.
    Streams,
    /// The connection ends once the output is sent.
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

/// A value that is being received.
struct Receiving {
    head: Box<[u8]>,
    value: Vec<u8>,
    length: usize,
    /// Memory of the cache that is reserved for the value until it is stored: the bytes received, and as
    /// many again. The buffer has its full capacity from the start, but pages without data use no
    /// memory.
    reserved: Option<Reservation>,
}

impl Receiving {
    /// Keeps the reservation ahead of the bytes received. Returns whether there was memory. An announced
    /// length reserves nothing: a client must send bytes to take memory from others.
    fn reserve(&mut self, context: &CommandContext<'_>) -> bool {
        let held = self.reserved.as_ref().map_or(0, Reservation::bytes) as usize;
        if self.length < RESERVED_BYTES || (held > 0 && self.value.len() <= held) {
            return true;
        }
        let wanted = self.length.min(RESERVED_BYTES.max(2 * self.value.len()));
        let Some(more) = context.cache().reserve((wanted - held) as u64) else { return false };
        match &mut self.reserved {
            Some(reserved) => reserved.absorb(more),
            None => self.reserved = Some(more),
        }
        true
    }
}

/// If at least this many bytes are missing, the value is read from the socket into its own buffer.
const DIRECT_BYTES: usize = 16 << 10;
/// Values of at least this size reserve memory of the cache while they are received, at first this much.
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

    /// Returns whether a value is being received.
    pub fn is_receiving(&self) -> bool {
        matches!(self.phase, Phase::Receiving(_))
    }

    /// Processes the input as far as possible.
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

    /// Ends the session. Complete commands are still answered, and no more input is read.
    pub fn end(&mut self, ending: Ending) {
        self.phase = Phase::Ended(ending);
    }

    /// Answers one command. Returns `None` if it is not complete.
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
        // the cache takes the memory for the item itself
        drop(receiving.reserved);
        let value = Received::Owned(receiving.value);
        let receipt = Receipt { head: &receiving.head, value, output, context };
        Some(match self.protocol {
            Protocol::Binary => binary::dispatch::finish(receipt),
            _ => text::dispatch::finish(receipt),
        })
    }

    /// Returns the buffer into which a large value is read from the socket, and the number of bytes that
    /// are missing. Bytes read beyond them must be returned to the input by [`Session::overrun`].
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

    /// Removes the bytes that were read beyond the value, and returns them.
    pub fn overrun(&mut self) -> Vec<u8> {
        match &mut self.phase {
            Phase::Receiving(receiving) if receiving.value.len() > receiving.length => {
                receiving.value.split_off(receiving.length)
            }
            _ => Vec::new(),
        }
    }
}

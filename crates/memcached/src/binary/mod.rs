//! The binary protocol: deprecated by memcached, the default of EVCache's client.
//!
//! A packet is a header of 24 bytes, extras, a key and a value. Each command is one entry of
//! [`COMMANDS`]; its quiet form is a second opcode that hides the answer that is expected.
//!
//! Invariants: numbers are in network order. A packet whose lengths contradict each other ends the
//! connection after an error; everything else leaves it usable.

pub(super) mod admin;
pub(super) mod arithmetic;
pub(super) mod get;
mod header;
pub(super) mod sasl;
pub(super) mod store;

pub(super) use header::{HEADER_BYTES, Header, REQUEST_MAGIC, Status};

use super::input::Input;
use super::operations::KEY_BYTES_MAX;
use super::output::{Bytes, Output};
use super::session::{Ending, Next, Session};
use super::turn::Turn;

/// Largest body in bytes.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// One command of the binary protocol.
pub(super) struct BinaryCommand {
    pub opcode: u8,
    /// The opcode of the quiet form.
    pub quiet: Option<u8>,
    pub name: &'static str,
    /// Which lengths of extras are allowed.
    pub extras: &'static [u8],
    pub shape: Shape,
    /// Whether a client may send it before it has authenticated.
    pub open: bool,
    pub run: fn(&mut Call<'_>) -> Next,
}

/// Which parts a packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No key and no value.
    Bare,
    /// A key.
    Key,
    /// Perhaps a key.
    MaybeKey,
    /// A key and a value.
    KeyAndValue,
}

/// Every command.
pub(super) const COMMANDS: &[BinaryCommand] = &[
    get::GET,
    get::GETK,
    store::SET,
    store::ADD,
    store::REPLACE,
    store::APPEND,
    store::PREPEND,
    store::DELETE,
    get::TOUCH,
    get::GAT,
    get::GATK,
    arithmetic::INCREMENT,
    arithmetic::DECREMENT,
    admin::NOOP,
    admin::FLUSH,
    admin::VERSION,
    admin::STAT,
    admin::QUIT,
    sasl::LIST_MECHANISMS,
    sasl::AUTH,
    sasl::STEP,
];

/// One packet while it is answered.
pub(super) struct Call<'a> {
    pub session: &'a mut Session,
    pub turn: &'a Turn<'a>,
    pub output: &'a mut Output,
    pub header: Header,
    /// Header, extras and key.
    pub head: &'a [u8],
    pub extras: &'a [u8],
    pub key: &'a [u8],
    /// What follows the key in the input.
    pub rest: &'a [u8],
    /// How many bytes of `rest` the command has used.
    pub used: usize,
    pub quiet: bool,
}

impl Call<'_> {
    /// Answers with an error.
    pub fn error(&mut self, status: Status) -> Next {
        self.header.write_error(status, self.output.tail());
        Next::Done
    }

    /// Answers that all went well, unless the quiet form was used.
    pub fn done(&mut self, cas: u64) -> Next {
        if !self.quiet {
            self.header.write(Status::Ok, cas, &[], &[], &[], self.output.tail());
        }
        Next::Done
    }

    /// Bytes of the value.
    pub fn value_length(&self) -> usize {
        self.header.value_length()
    }
}

/// Answers one packet; `None` when header, extras and key have not come whole.
pub(super) fn command(
    session: &mut Session,
    input: &mut Input,
    output: &mut Output,
    turn: &Turn<'_>,
) -> Option<Next> {
    let unread = input.unread();
    let header = Header::read(unread)?;
    if header.magic != REQUEST_MAGIC {
        return Some(Next::End(Ending::Error));
    }
    let lengths = usize::from(header.extras) + usize::from(header.key);
    if header.body as usize >= lengths && unread.len() < HEADER_BYTES + lengths {
        return None;
    }
    if let Some(status) = check(&header, session, turn) {
        header.write_error(status, output.tail());
        input.consume(unread.len());
        return Some(Next::End(Ending::Error));
    }
    let (head, rest) = unread.split_at(HEADER_BYTES + lengths);
    let (extras, key) = head[HEADER_BYTES..].split_at(usize::from(header.extras));
    let found = COMMANDS
        .iter()
        .find(|command| command.opcode == header.opcode || command.quiet == Some(header.opcode));
    let value = header.value_length();
    let Some(command) = found else {
        header.write_error(Status::UnknownCommand, output.tail());
        input.consume(head.len());
        return Some(Next::Skip { length: value });
    };
    if !fits(command, &header) {
        header.write_error(Status::Invalid, output.tail());
        input.consume(unread.len());
        return Some(Next::End(Ending::Error));
    }
    let quiet = command.quiet == Some(header.opcode);
    let mut call = Call { session, turn, output, header, head, extras, key, rest, used: 0, quiet };
    let next = (command.run)(&mut call);
    let used = head.len() + call.used;
    if let Next::NeedsInput = next {
        return None;
    }
    input.consume(used);
    Some(next)
}

/// Why a packet ends the connection, if it does.
fn check(header: &Header, session: &Session, turn: &Turn<'_>) -> Option<Status> {
    if u32::from(header.key) + u32::from(header.extras) > header.body {
        return Some(Status::UnknownCommand);
    }
    if header.body > BODY_BYTES_MAX {
        return Some(Status::Invalid);
    }
    let open = || COMMANDS.iter().any(|command| command.open && command.opcode == header.opcode);
    if turn.settings().sasl && !session.authenticated && !open() {
        return Some(Status::NotAuthenticated);
    }
    (usize::from(header.key) > KEY_BYTES_MAX).then_some(Status::Invalid)
}

fn fits(command: &BinaryCommand, header: &Header) -> bool {
    let (key, value) = (header.key > 0, header.value_length() > 0);
    let shape = match command.shape {
        Shape::Bare => !key && !value,
        Shape::Key => key && !value,
        Shape::MaybeKey => !value,
        Shape::KeyAndValue => key,
    };
    shape && command.extras.contains(&header.extras)
}

/// Four bytes of extras in network order.
pub(super) fn number_32(extras: &[u8], at: usize) -> u32 {
    extras.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Eight bytes of extras in network order.
pub(super) fn number_64(extras: &[u8], at: usize) -> u64 {
    extras.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Writes a success or an error to where an answer that was waited for belongs.
pub(super) fn write_outcome(header: &Header, quiet: bool, outcome: Result<u64, Status>, out: &mut Bytes) {
    match outcome {
        Ok(_) if quiet => {}
        Ok(cas) => header.write(Status::Ok, cas, &[], &[], &[], out),
        Err(status) => header.write_error(status, out),
    }
}

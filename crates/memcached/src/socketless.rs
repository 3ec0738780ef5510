//! A server and its clients without sockets: bytes in, answers out. Tests and fuzzers talk to it.
//!
//! Invariants: sessions, cache and counters are those of a server that listens; the clock stands still. A
//! client is answered before [`SocketlessClient::send`] returns, or never.

use std::sync::Arc;
use std::task::{Context, Waker};

use sandur_base::{Env, Shutdown};

use super::arguments::{Parsed, parse};
use super::command_context::CommandContext;
use super::counters::Counters;
use super::error::Error;
use super::input::{Buffers, Input};
use super::log::Log;
use super::output::Output;
use super::server::Server;
use super::session::{Progress, Session};
use super::settings::Settings;

/// The second of the epoch at which the clock stands.
const NOW: u32 = 1_700_000_000;
/// The descriptor that `stats conns` and `watch` show.
const DESCRIPTOR: i32 = 7;

/// A server that nobody can connect to.
pub struct SocketlessServer {
    pub(super) server: Arc<Server>,
    counters: Arc<Counters>,
}

/// One client of it.
pub struct SocketlessClient<'a> {
    of: &'a SocketlessServer,
    pub(super) session: Session,
    input: Input,
    output: Output,
    buffers: Buffers,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is read from.
    Listening,
    /// It waits for an answer, or is sent what happens.
    Waiting,
    /// The server has closed.
    Ended,
}

impl SocketlessServer {
    /// A server as memcached's command line says, with one worker and no ports; `None` when the command line
    /// asks for a text only.
    pub fn new(arguments: &[&str]) -> Result<Option<Self>, Error> {
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match parse(&arguments)? {
            Parsed::Serve(settings) => Self::serving(*settings, Arc::new(|_: &str| ())).map(Some),
            Parsed::Print(_) => Ok(None),
        }
    }

    pub(super) fn serving(settings: Settings, log: Arc<dyn Log>) -> Result<Self, Error> {
        let env = Env::simulated(1, i64::from(NOW) * 1_000_000_000);
        let settings = Settings { threads: 1, ..settings };
        let server = Arc::new(Server::new(env, settings, Shutdown::default(), log)?);
        let counters = Arc::clone(&server.workers[0]);
        Ok(Self { server, counters })
    }

    /// A new client.
    pub fn client(&self) -> SocketlessClient<'_> {
        let settings = &self.server.settings;
        let authenticated = !settings.sasl && settings.auth_file.is_none();
        SocketlessClient {
            of: self,
            session: Session::new(settings.protocol, authenticated),
            input: Input::default(),
            output: Output::default(),
            buffers: Buffers::default(),
            state: State::Listening,
        }
    }
}

impl SocketlessClient<'_> {
    /// Sends bytes and returns what comes back. Bytes behind a command that waits, or behind the end of the
    /// connection, are not read.
    pub fn send(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        while self.state != State::Ended {
            self.output.poll(&mut Context::from_waker(Waker::noop()));
            let context = CommandContext {
                server: &self.of.server,
                counters: &self.of.counters,
                waker: Waker::noop(),
                now: NOW,
                descriptor: DESCRIPTOR,
                may_slow_down: true,
            };
            let progress = self.session.advance(&mut self.input, &mut self.output, &context);
            self.take_answers(&mut answers);
            self.state = match progress {
                Progress::NeedsInput | Progress::Yielded | Progress::Full => State::Listening,
                Progress::Streams | Progress::Waits => State::Waiting,
                Progress::Ended(_) => State::Ended,
            };
            if self.state == State::Waiting || (progress == Progress::NeedsInput && bytes.is_empty()) {
                break;
            }
            if progress == Progress::NeedsInput {
                let Ok(space) = self.input.space(&mut self.buffers) else {
                    self.state = State::Ended;
                    break;
                };
                let count = bytes.len().min(space.capacity() - space.len());
                space.extend_from_slice(&bytes[..count]);
                bytes = &bytes[count..];
            }
        }
        answers
    }

    fn take_answers(&mut self, answers: &mut Vec<u8>) {
        while self.output.has_ready() {
            let before = answers.len();
            for slice in self.output.slices() {
                answers.extend_from_slice(&slice);
            }
            self.output.advance(answers.len() - before);
        }
    }

    /// Whether the latest command waits for something, or sends what happens from now on.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Whether the server has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }
}

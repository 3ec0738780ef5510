//! A server and its clients without sockets, bytes in and answers out, for tests and fuzzers.
//!
//! Invariants: sessions, cache and counters are the same as in a listening server; the clock does not
//! advance. [`SocketlessClient::send`] returns all answers that there will be without more input.

use std::sync::Arc;
use std::task::{Context, Waker};

use sandur_runtime::{Env, Shutdown};

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

/// The time of the clock, in seconds since the epoch.
const NOW: u32 = 1_700_000_000;
/// The descriptor that `stats conns` and `watch` show.
const DESCRIPTOR: i32 = 7;

/// A server without listeners.
pub struct SocketlessServer {
    pub(super) server: Arc<Server>,
    counters: Arc<Counters>,
}

/// A client of a [`SocketlessServer`].
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
    /// The server reads its input.
    Listening,
    /// It waits for an answer, or receives a stream.
    Waiting,
    /// The server has closed the connection.
    Ended,
}

impl SocketlessServer {
    /// A server with the options of memcached's command line, one worker and no ports. Returns `None` if
    /// the command line only requests a text.
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

    /// Connects a new client.
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
    /// Sends bytes and returns the answers. Bytes after a command that waits, or after the end of the
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

    /// Returns whether the latest command waits for an answer or streams events.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// Returns whether the server has closed the connection.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }
}

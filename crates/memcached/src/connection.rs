//! One connection: its socket, its session, and its input and output.
//!
//! **Life of a call.** Read the available bytes, answer every complete command, write once. A request
//! that arrives alone thus needs three system calls: the wait, one read and one write.
//!
//! Invariants: input is only read while the session wants it and the output has room, so a client that
//! does not read its answers is not read from. An error of the socket ends only its connection.

use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::command_context::CommandContext;
use super::connections::{Peer, State};
use super::counters::Counters;
use super::input::{Buffers, Input, NoSpace};
use super::next::Ending;
use super::output::Output;
use super::read::Read;
use super::server::Server;
use super::session::{Progress, Session};
use super::transport::Transport;

/// A connection.
pub(super) struct Connection {
    transport: Transport,
    session: Session,
    input: Input,
    output: Output,
    pub peer: Arc<Peer>,
    /// The socket may have more to read.
    readable: bool,
    /// The socket accepts bytes.
    writable: bool,
    /// The client has closed its side: reads will reach the end.
    hung_up: bool,
    /// The client has closed both sides.
    is_cut: bool,
}

/// The events of a socket, as the poller reports them.
pub(super) struct Events {
    pub readable: bool,
    pub writable: bool,
    /// The client sends nothing any more.
    pub hung_up: bool,
    /// The client does not receive any more either.
    pub is_cut: bool,
}

/// The parts of the worker that a connection uses.
pub(super) struct WorkerContext<'a> {
    pub server: &'a Arc<Server>,
    pub counters: &'a Arc<Counters>,
    pub buffers: &'a mut Buffers,
    pub waker: &'a Waker,
    pub now: u32,
}

/// The result of [`Connection::serve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Serve it again when the poller or a waker reports it.
    Waits,
    /// Serve it again after the other connections.
    Again,
    /// The connection has ended.
    Closed(Ending),
}

impl Connection {
    pub fn new(transport: Transport, session: Session, peer: Arc<Peer>) -> Self {
        let (input, output) = (Input::default(), Output::default());
        let (readable, writable, hung_up, is_cut) = (true, true, false, false);
        Self { transport, session, input, output, peer, readable, writable, hung_up, is_cut }
    }

    /// Returns the socket.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Records the events that the poller reports.
    pub fn note(&mut self, events: Events) {
        let Events { readable, writable, hung_up, is_cut } = events;
        self.readable |= readable | hung_up;
        self.writable |= writable;
        self.hung_up |= hung_up;
        self.is_cut |= is_cut;
    }

    /// Does all work that is possible now.
    pub fn serve(&mut self, worker: &mut WorkerContext<'_>) -> Outcome {
        if self.peer.makes_way() {
            worker.counters.totals.idle_kicks.add(1);
            return Outcome::Closed(Ending::Idle);
        }
        self.output.borrow(worker.buffers);
        let worked = self.work(worker);
        self.output.release(worker.buffers);
        match worked {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Closed(Ending::Error),
        }
    }

    fn work(&mut self, worker: &mut WorkerContext<'_>) -> io::Result<Outcome> {
        loop {
            if self.output.waiting() > 0 {
                self.output.poll(&mut Context::from_waker(worker.waker));
            }
            let progress = self.advance(worker);
            match progress {
                Progress::NeedsInput if self.readable => {
                    // answers are sent together once the socket has no more input, unless the session
                    // needs the next part of a large value
                    match self.read(worker)? {
                        Reading::Got => continue,
                        Reading::Nothing => {}
                        Reading::End(ending) => {
                            self.session.end(ending);
                            continue;
                        }
                    }
                }
                Progress::Yielded => {
                    worker.counters.totals.conn_yields.add(1);
                    return Ok(Outcome::Again);
                }
                Progress::Ended(ending) => return self.finish(ending, worker),
                _ => {}
            }
            let waiting = self.output.waiting();
            if waiting > 0 {
                // the first poll of a new answer registers the waker of this connection
                self.output.poll(&mut Context::from_waker(worker.waker));
                if self.output.waiting() < waiting {
                    continue;
                }
            }
            let moved = self.flush(worker)?;
            if self.output.waiting() > 0 {
                // new answers must register their waker, and the bytes sent made room for answers that
                // have arrived
                self.output.poll(&mut Context::from_waker(worker.waker));
                if self.writable && self.output.has_ready() {
                    continue;
                }
            }
            let goes_on = match progress {
                Progress::Full | Progress::Streams => moved && self.writable,
                _ => false,
            };
            if goes_on {
                continue;
            }
            if self.hung_up && self.readable && progress == Progress::Streams {
                // no client is left to receive a stream; but a wait ends by itself, and commands sent
                // before the end are still executed
                return Ok(Outcome::Closed(Ending::Normal));
            }
            let state = match progress {
                Progress::Waits => State::Fetching,
                Progress::Streams => State::Watching,
                Progress::Full => State::Sending,
                _ if self.session.is_receiving() => State::Receiving,
                _ => State::Waiting,
            };
            self.input.release(worker.buffers);
            return Ok(self.wait(state));
        }
    }

    /// Sends the remaining answers as they arrive, and closes.
    fn finish(&mut self, ending: Ending, worker: &WorkerContext<'_>) -> io::Result<Outcome> {
        loop {
            let waiting = self.output.waiting();
            if waiting > 0 {
                self.output.poll(&mut Context::from_waker(worker.waker));
            }
            let moved = self.flush(worker)?;
            if self.output.is_empty() || self.is_cut && !self.writable {
                return Ok(Outcome::Closed(ending));
            }
            if self.output.waiting() == waiting && !(moved && self.writable) {
                return Ok(self.wait(State::Sending));
            }
        }
    }

    fn wait(&self, state: State) -> Outcome {
        self.peer.set_state(state);
        Outcome::Waits
    }

    fn advance(&mut self, worker: &WorkerContext<'_>) -> Progress {
        if !self.input.is_empty() {
            self.peer.set_state(State::Parsing);
            self.peer.touch(worker.now);
        }
        let context = CommandContext {
            server: worker.server,
            counters: worker.counters,
            waker: worker.waker,
            now: worker.now,
            descriptor: self.peer.descriptor,
            may_slow_down: true,
        };
        self.session.advance(&mut self.input, &mut self.output, &context)
    }

    /// Reads once: into the buffer of a large value, or into the input.
    fn read(&mut self, worker: &mut WorkerContext<'_>) -> io::Result<Reading> {
        let into_value = self.input.is_empty();
        let read = match self.session.sink() {
            Some((value, _)) if into_value => self.transport.read(value)?,
            _ => match self.input.space(worker.buffers) {
                Ok(space) => self.transport.read(space)?,
                Err(why) => return Ok(self.end_reading(why, worker)),
            },
        };
        let (count, more) = match read {
            Read::More(count) => (count, true),
            Read::Drained(count) => (count, self.hung_up),
            Read::End => return Ok(Reading::End(Ending::Normal)),
        };
        worker.counters.totals.bytes_read.add(count as u64);
        if count > 0 {
            // part of a long value counts as activity too
            self.peer.touch(worker.now);
        }
        self.readable = more;
        if into_value {
            let beyond = self.session.overrun();
            if !beyond.is_empty() {
                match self.input.space(worker.buffers) {
                    Ok(space) => space.extend_from_slice(&beyond),
                    Err(why) => return Ok(self.end_reading(why, worker)),
                }
            }
        }
        Ok(if count > 0 || more { Reading::Got } else { Reading::Nothing })
    }

    /// Handles a client whose input would need more memory than there is.
    fn end_reading(&mut self, why: NoSpace, worker: &WorkerContext<'_>) -> Reading {
        if why == NoSpace::OutOfMemory {
            worker.counters.totals.input_oom.add(1);
            self.output.line(b"SERVER_ERROR out of memory reading request");
        }
        Reading::End(Ending::Error)
    }

    /// Writes as much as the socket accepts. Returns whether anything was written.
    fn flush(&mut self, worker: &WorkerContext<'_>) -> io::Result<bool> {
        let mut moved = false;
        while self.writable && self.output.has_ready() {
            let taken = match self.output.plain() {
                Some(bytes) => self.transport.write(bytes)?,
                None => self.transport.write_vectored(&self.output.slices())?,
            };
            let Some(count) = taken else {
                self.writable = false;
                break;
            };
            worker.counters.totals.bytes_written.add(count as u64);
            self.output.advance(count);
            moved = true;
        }
        if self.writable && !self.transport.flush()? {
            self.writable = false;
        }
        Ok(moved)
    }

    /// Returns the input buffer to the worker when the connection ends.
    pub fn abandon(&mut self, buffers: &mut Buffers) {
        self.input.abandon(buffers);
    }

    /// Returns the size of the input buffer in bytes.
    pub fn input_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// Returns the number of bytes to be sent, and of answers that wait for the device.
    pub fn queued(&self) -> (usize, usize) {
        (self.output.queued(), self.output.waiting())
    }
}

enum Reading {
    Got,
    Nothing,
    End(Ending),
}

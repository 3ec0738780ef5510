//! A worker: a thread that owns connections and waits for them with its own poller.
//!
//! Sockets are polled edge-triggered: a connection is registered once and remembers the state of its
//! socket, so the registration never needs to change.
//!
//! Invariants: a connection belongs to one worker all its life. A worker blocks only in its poller.
//! Because each place has a use number, a late wake-up of a former connection has no effect.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::connection::{Connection, Events, Outcome, WorkerContext};
use super::connections::State;
use super::counters::Counters;
use super::datagram::{DATAGRAM_TOKEN, Datagrams};
use super::input::Buffers;
use super::message_queue::{ConnectionWaker, Message, MessageQueue, Token};
use super::next::Ending;
use super::server::Server;
use super::time;
use super::watch::{Event as WatchEvent, Stream};
use sandur_cache::device::OwnReads;

/// The largest number of events of one wait.
const EVENTS: usize = 128;
/// Registrations that are not connections.
const QUEUE_EVENT: u64 = u64::MAX;
const DATAGRAMS: u64 = u64::MAX - 1;
const READS: u64 = u64::MAX - 2;

/// A worker's state.
pub(super) struct Worker {
    server: Arc<Server>,
    counters: Arc<Counters>,
    queue: Arc<MessageQueue>,
    poller: OwnedFd,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Connections that have more work to do.
    again: VecDeque<Token>,
    buffers: Buffers,
    datagrams: Option<Datagrams>,
    checked_at: u32,
}

#[derive(Default)]
struct Place {
    use_number: u32,
    taken: Option<Taken>,
}

struct Taken {
    connection: Box<Connection>,
    waker: Waker,
    flag: Arc<ConnectionWaker>,
}

impl Worker {
    /// A worker that updates `counters` and receives messages from `queue`.
    pub fn new(
        server: Arc<Server>,
        counters: Arc<Counters>,
        queue: Arc<MessageQueue>,
        datagrams: Option<Datagrams>,
    ) -> io::Result<Self> {
        let poller = epoll::create(CreateFlags::CLOEXEC)?;
        let (settings, workers) = (&server.settings, server.workers.len());
        let buffers = Buffers::within((settings.buffer_bytes_max / workers as u64) as usize);
        epoll::add(&poller, queue.event(), EventData::new_u64(QUEUE_EVENT), EventFlags::IN)?;
        if let Some(datagrams) = &datagrams {
            epoll::add(&poller, datagrams.socket(), EventData::new_u64(DATAGRAMS), EventFlags::IN)?;
        }
        Ok(Self {
            server,
            counters,
            queue,
            poller,
            places: Vec::new(),
            free: Vec::new(),
            again: VecDeque::new(),
            buffers,
            datagrams,
            checked_at: 0,
        })
    }

    /// Runs until a stop is requested.
    pub fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        self.queue.own();
        let own_reads = self.own_reads();
        loop {
            events.clear();
            let timeout = self.timeout();
            match epoll::wait(&self.poller, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // the poller itself is broken: no connection can be served any more
                Err(_) => break,
            }
            let now = time::now(&self.server.env);
            if let Some(own_reads) = &own_reads {
                own_reads.hand_out();
            }
            // connections that yielded to others come first
            for _ in 0..self.again.len() {
                if let Some(token) = self.again.pop_front() {
                    self.serve(token, now, |_| {});
                }
            }
            for event in &events {
                match event.data.u64() {
                    QUEUE_EVENT => {
                        let messages = self.queue.take();
                        if self.read(messages, now) {
                            return self.close_all();
                        }
                    }
                    READS => {} // completed above
                    DATAGRAMS => self.read_datagrams(now),
                    bits => self.react(Token::from_bits(bits), event.flags, now),
                }
            }
            if self.queue.has_own() {
                let messages = self.queue.take_own();
                if self.read(messages, now) {
                    return self.close_all();
                }
            }
            if let Some(own_reads) = &own_reads {
                own_reads.hand_over();
            }
            self.check(now);
        }
        self.close_all();
    }

    /// Returns the flash reads whose completions this thread handles itself, if there are any.
    fn own_reads(&self) -> Option<OwnReads> {
        let own_reads = self.server.cache.own_reads()?;
        epoll::add(&self.poller, &own_reads, EventData::new_u64(READS), EventFlags::IN).ok()?;
        Some(own_reads)
    }

    fn timeout(&self) -> Option<Timespec> {
        if !self.again.is_empty() || self.queue.has_own() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let idle = self.server.settings.idle_timeout_s > 0;
        idle.then_some(Timespec { tv_sec: 1, tv_nsec: 0 })
    }

    fn react(&mut self, token: Token, flags: EventFlags, now: u32) {
        let (readable, writable) = (flags.contains(EventFlags::IN), flags.contains(EventFlags::OUT));
        let is_cut = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        let hung_up = is_cut || flags.contains(EventFlags::RDHUP);
        let events = Events { readable, writable, hung_up, is_cut };
        self.serve(token, now, |connection| connection.note(events));
    }

    fn serve(&mut self, token: Token, now: u32, before: impl FnOnce(&mut Connection)) {
        let place = self.places.get_mut(token.place as usize);
        let Some(Place { taken: Some(taken), use_number }) = place else { return };
        if *use_number != token.use_number {
            return;
        }
        before(&mut taken.connection);
        taken.flag.seen();
        let (server, counters) = (&self.server, &self.counters);
        let mut context =
            WorkerContext { server, counters, buffers: &mut self.buffers, waker: &taken.waker, now };
        match taken.connection.serve(&mut context) {
            Outcome::Waits => {}
            Outcome::Again => self.again.push_back(token),
            Outcome::Closed(ending) => self.close(token, ending),
        }
    }

    /// Handles messages. Returns whether to stop.
    fn read(&mut self, messages: Vec<Message>, now: u32) -> bool {
        for message in messages {
            match message {
                Message::Adopt(connection) => self.adopt(connection, now),
                Message::Resume(DATAGRAM_TOKEN) => {
                    if let Some(datagrams) = &mut self.datagrams {
                        datagrams.proceed(&self.counters);
                    }
                }
                Message::Resume(token) => self.serve(token, now, |_| {}),
                Message::Stop => return true,
            }
        }
        false
    }

    fn adopt(&mut self, connection: Box<Connection>, now: u32) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let token = Token { place, use_number: self.places[place as usize].use_number };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let added =
            epoll::add(&self.poller, connection.transport(), EventData::new_u64(token.to_bits()), flags);
        self.watch_opened(&connection);
        let flag = ConnectionWaker::new(Arc::clone(&self.queue), token);
        let waker = Waker::from(Arc::clone(&flag));
        connection.peer.adopted(waker.clone());
        self.places[place as usize].taken = Some(Taken { connection, waker, flag });
        match added {
            Ok(()) => self.serve(token, now, |_| {}),
            Err(_) => self.close(token, Ending::Error),
        }
    }

    fn watch_opened(&self, connection: &Connection) {
        let watchers = &self.server.watchers;
        if watchers.wants(Stream::Connections) {
            let peer = &connection.peer;
            let event = WatchEvent::Opened {
                peer: &peer.address,
                transport: peer.transport,
                descriptor: peer.descriptor,
            };
            watchers.publish(Stream::Connections, &event, self.server.env.now_ns());
        }
    }

    fn close(&mut self, token: Token, ending: Ending) {
        let place = &mut self.places[token.place as usize];
        let Some(mut taken) = place.taken.take() else { return };
        taken.connection.abandon(&mut self.buffers);
        place.use_number = place.use_number.wrapping_add(1);
        self.free.push(token.place);
        let peer = Arc::clone(&taken.connection.peer);
        // removed before the descriptor can be used for another connection
        self.server.connections.remove(&peer);
        drop(taken);
        let watchers = &self.server.watchers;
        if watchers.wants(Stream::Connections) {
            let event = WatchEvent::Closed {
                peer: &peer.address,
                transport: peer.transport,
                reason: ending.name(),
                descriptor: peer.descriptor,
            };
            watchers.publish(Stream::Connections, &event, self.server.env.now_ns());
        }
    }

    fn close_all(&mut self) {
        for place in 0..self.places.len() as u32 {
            let use_number = self.places[place as usize].use_number;
            self.close(Token { place, use_number }, Ending::Shutdown);
        }
    }

    fn read_datagrams(&mut self, now: u32) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.receive(&self.server, &self.counters, now);
        }
    }

    /// Once per second: closes idle connections and updates the gauges.
    fn check(&mut self, now: u32) {
        if now == self.checked_at {
            return;
        }
        self.checked_at = now;
        let timeout = self.server.settings.idle_timeout_s;
        let (mut buffers, mut bytes, mut queued, mut answers) = (0u64, 0u64, 0u64, 0u64);
        let mut silent = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let Some(taken) = &place.taken else { continue };
            let held = taken.connection.input_bytes() as u64;
            buffers += u64::from(held > 0);
            bytes += held;
            let (to_leave, waiting) = taken.connection.queued();
            queued += to_leave as u64;
            answers += waiting as u64;
            let peer = &taken.connection.peer;
            let watches = peer.state() == super::connections::name_of(State::Watching);
            if timeout > 0 && !watches && now.saturating_sub(peer.last_command()) > timeout {
                silent.push(Token { place: number as u32, use_number: place.use_number });
            }
        }
        for token in silent {
            self.counters.totals.idle_kicks.add(1);
            self.close(token, Ending::Idle);
        }
        let gauges = &self.counters.gauges;
        gauges.input_bytes_free.set(self.buffers.free_bytes());
        gauges.input_buffers.set(buffers);
        gauges.input_bytes.set(bytes + self.buffers.free_bytes());
        gauges.queued_bytes.set(queued);
        gauges.queued_answers.set(answers);
    }
}

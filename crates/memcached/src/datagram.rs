//! UDP: a request is one datagram, its answer one or more.
//!
//! Each datagram begins with eight bytes: request number, sequence number, number of datagrams, and two
//! zero bytes, all in network order. A request of more than one datagram is ignored. Lost answers are
//! not sent again, since UDP guarantees nothing.
//!
//! An answer may have one datagram, or [`ANSWER_PER_REQUEST`] times the bytes of its request if that is
//! more. A longer answer is replaced by an error, so that the server cannot be abused as an amplifier
//! with forged source addresses.
//!
//! Invariant: at most [`EXCHANGES_MAX`] requests wait for the device; further ones are ignored.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Waker};

use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recvfrom, sendto};

use super::command_context::CommandContext;
use super::counters::Counters;
use super::input::{Buffers, Input};
use super::message_queue::{ConnectionWaker, MessageQueue, Token};
use super::output::Output;
use super::server::Server;
use super::session::{Progress, Session};
use super::settings::Binding;

/// Bytes of the header before the request.
const HEADER_BYTES: usize = 8;
/// Bytes of one datagram of an answer; small enough for one packet on usual networks.
const DATAGRAM_BYTES: usize = 1400;
/// Bytes of an answer per byte of its request, if that is more than one datagram. It bounds the traffic
/// to the owner of a forged source address.
const ANSWER_PER_REQUEST: usize = 16;
/// The error that replaces an answer that is too long.
const TOO_LONG: &[u8] = b"SERVER_ERROR answer too long for UDP, ask over TCP\r\n";
/// The largest request in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The largest number of requests that wait for the device.
const EXCHANGES_MAX: usize = 1024;
/// The largest number of requests that are answered before connections are served.
const REQUESTS_PER_TURN: usize = 64;
/// Identifies the socket in a worker's messages.
pub(super) const DATAGRAM_TOKEN: Token = Token { place: u32::MAX, use_number: 0 };

/// A UDP socket, served by one worker.
pub(super) struct Datagrams {
    socket: OwnedFd,
    waiting: Vec<Exchange>,
    waker: Waker,
    flag: Arc<ConnectionWaker>,
    buffers: Buffers,
}

/// A request whose answer is not complete yet.
struct Exchange {
    client: SocketAddrAny,
    number: [u8; 2],
    /// The largest size of the answer in bytes.
    most: usize,
    output: Output,
}

impl Datagrams {
    pub fn new(socket: OwnedFd, queue: Arc<MessageQueue>) -> Self {
        let flag = ConnectionWaker::new(queue, DATAGRAM_TOKEN);
        let waker = Waker::from(Arc::clone(&flag));
        Self { socket, waiting: Vec::new(), waker, flag, buffers: Buffers::default() }
    }

    /// Returns the socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Answers the requests that have arrived.
    pub fn receive(&mut self, server: &Arc<Server>, counters: &Arc<Counters>, now: u32) {
        let mut request = vec![0u8; REQUEST_BYTES_MAX];
        for _ in 0..REQUESTS_PER_TURN {
            let Ok((length, _, Some(client))) = recvfrom(&self.socket, &mut request[..], RecvFlags::DONTWAIT)
            else {
                return;
            };
            counters.totals.bytes_read.add(length as u64);
            let Some((header, body)) = request[..length].split_at_checked(HEADER_BYTES) else { continue };
            if header[4..6] != [0, 1] {
                continue;
            }
            let number = [header[0], header[1]];
            let output = self.answer(body, server, counters, now);
            let most = (length * ANSWER_PER_REQUEST).max(DATAGRAM_BYTES - HEADER_BYTES);
            let exchange = Exchange { client, number, most, output };
            if exchange.output.waiting() == 0 {
                self.send(exchange, counters);
            } else if self.waiting.len() < EXCHANGES_MAX {
                self.waiting.push(exchange);
            }
        }
    }

    fn answer(&mut self, body: &[u8], server: &Arc<Server>, counters: &Arc<Counters>, now: u32) -> Output {
        let (mut input, mut output) = (Input::default(), Output::default());
        if let Ok(space) = input.space(&mut self.buffers) {
            space.extend_from_slice(body);
        }
        let mut session = Session::new(Binding::Auto, true);
        let descriptor = self.socket.as_raw_fd();
        // A command after one that waits would be lost.
        let may_slow_down = false;
        let context = CommandContext { server, counters, waker: &self.waker, now, descriptor, may_slow_down };
        while session.advance(&mut input, &mut output, &context) == Progress::Yielded {}
        if output.waiting() > 0 {
            output.poll(&mut Context::from_waker(&self.waker));
        }
        input.consume(input.unread().len());
        input.release(&mut self.buffers);
        output
    }

    /// Sends answers that have become complete.
    pub fn proceed(&mut self, counters: &Counters) {
        self.flag.seen();
        let mut at = 0;
        while at < self.waiting.len() {
            self.waiting[at].output.poll(&mut Context::from_waker(&self.waker));
            if self.waiting[at].output.waiting() == 0 {
                let exchange = self.waiting.swap_remove(at);
                self.send(exchange, counters);
            } else {
                at += 1;
            }
        }
    }

    fn send(&self, mut exchange: Exchange, counters: &Counters) {
        let is_too_long = exchange.output.queued() > exchange.most;
        let mut answer =
            if is_too_long { TOO_LONG.to_vec() } else { Vec::with_capacity(exchange.output.queued()) };
        while !is_too_long && exchange.output.has_ready() {
            let before = answer.len();
            for slice in exchange.output.slices() {
                answer.extend_from_slice(&slice);
            }
            exchange.output.advance(answer.len() - before);
        }
        let parts = answer.chunks(DATAGRAM_BYTES - HEADER_BYTES);
        let Ok(total) = u16::try_from(parts.len()) else { return };
        let mut datagram = Vec::with_capacity(DATAGRAM_BYTES);
        for (number, part) in parts.enumerate() {
            datagram.clear();
            datagram.extend_from_slice(&exchange.number);
            datagram.extend_from_slice(&(number as u16).to_be_bytes());
            datagram.extend_from_slice(&total.to_be_bytes());
            datagram.extend_from_slice(&[0, 0]);
            datagram.extend_from_slice(part);
            match sendto(&self.socket, &datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &exchange.client)
            {
                Ok(count) => counters.totals.bytes_written.add(count as u64),
                // the client retries or does without
                Err(_) => return,
            }
        }
    }
}

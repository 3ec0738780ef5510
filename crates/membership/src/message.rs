//! The messages inside sealed datagrams.
//!
//! ```text
//!  kind     1 byte    1 beats, 2 beats that ask for the receiver's, 3 wanted states, 4 states
//!  number   1 byte    of items
//!  items              beat: id 16, counter 8, catalog 8, WAL 8, state version 4, flags 1
//!                     wanted state: id 16
//!                     state: id 16, state version 4, length 2, as many bytes
//! ```
//!
//! Numbers are little endian. A message ends with its last item; unknown flags are ignored.
//!
//! **Invariant.** A message is as large as one datagram at most, and so is what parsing it allocates.

use sandur_base::Id;

use crate::bytes::Bytes;
use crate::datagram::PAYLOAD_BYTES_MAX;
use crate::state::STATE_BYTES_MAX;

const BEATS: u8 = 1;
const BEATS_THAT_ASK: u8 = 2;
const WANTED: u8 = 3;
const STATES: u8 = 4;

const HEAD_BYTES: usize = 2;
const BEAT_BYTES: usize = 45;
const ID_BYTES: usize = 16;
const STATE_HEAD_BYTES: usize = 22;

/// Beats of one message, at most.
pub(crate) const BEATS_MAX: usize = (PAYLOAD_BYTES_MAX - HEAD_BYTES) / BEAT_BYTES;
/// Wanted states of one message, at most.
pub(crate) const WANTED_MAX: usize = (PAYLOAD_BYTES_MAX - HEAD_BYTES) / ID_BYTES;

/// Counters above this are refused: no process counts so far, and it leaves room to count on.
pub(crate) const COUNTER_MAX: u64 = 1 << 48;
/// The same for versions of states.
pub(crate) const STATE_VERSION_MAX: u32 = 1 << 30;

const DRAINING: u8 = 1;
const LEFT: u8 = 1 << 1;

const _: () = assert!(HEAD_BYTES + STATE_HEAD_BYTES + STATE_BYTES_MAX <= PAYLOAD_BYTES_MAX);
const _: () = assert!(BEATS_MAX <= 255 && WANTED_MAX <= 255);

/// The newest sign of life of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The process start.
    pub id: Id,
    /// Grows every second and with every other change of the beat.
    pub counter: u64,
    /// The newest number of the catalog's log that the node knows.
    pub catalog: u64,
    /// The number of the node's next WAL segment: all before it are in the bucket.
    pub wal: u64,
    /// The version of the node's state.
    pub state_version: u32,
    /// The node hands its work to others.
    pub is_draining: bool,
    /// The node has stopped.
    pub has_left: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Signs of life.
    Beats {
        /// Whether the receiver shall answer with those that it knows.
        asks: bool,
        /// At most [`BEATS_MAX`].
        beats: Vec<Beat>,
    },
    /// The sender wants the states of these nodes; at most [`WANTED_MAX`].
    Wanted(Vec<Id>),
    /// States and their versions, as bytes; as many as fit.
    States(Vec<(Id, u32, Vec<u8>)>),
}

impl Message {
    /// The payload of a datagram.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number) = match self {
            Self::Beats { asks: false, beats } => (BEATS, beats.len()),
            Self::Beats { asks: true, beats } => (BEATS_THAT_ASK, beats.len()),
            Self::Wanted(ids) => (WANTED, ids.len()),
            Self::States(states) => (STATES, states.len()),
        };
        let mut out = vec![kind, number as u8];
        match self {
            Self::Beats { beats, .. } => beats.iter().for_each(|beat| beat.encode(&mut out)),
            Self::Wanted(ids) => ids.iter().for_each(|id| out.extend_from_slice(&id.to_bytes())),
            Self::States(states) => {
                for (id, version, bytes) in states {
                    out.extend_from_slice(&id.to_bytes());
                    out.extend_from_slice(&version.to_le_bytes());
                    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
                    out.extend_from_slice(bytes);
                }
            }
        }
        assert!(out.len() <= PAYLOAD_BYTES_MAX, "messages are cut before they are encoded");
        out
    }

    /// Parses an authentic payload; `None` if it is not a message.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return None;
        }
        let mut from = Bytes::new(payload);
        let (kind, number) = (from.u8()?, from.u8()?);
        let message = match kind {
            BEATS | BEATS_THAT_ASK => {
                let beats = (0..number).map(|_| Beat::parse(&mut from)).collect::<Option<_>>()?;
                Self::Beats { asks: kind == BEATS_THAT_ASK, beats }
            }
            WANTED => Self::Wanted((0..number).map(|_| from.id()).collect::<Option<_>>()?),
            STATES => Self::States((0..number).map(|_| parse_state(&mut from)).collect::<Option<_>>()?),
            _ => return None,
        };
        from.is_empty().then_some(message)
    }

    /// Splits states into messages that each fit into a datagram, at most `most` of them.
    pub(crate) fn of_states(states: impl Iterator<Item = (Id, u32, Vec<u8>)>, most: usize) -> Vec<Self> {
        let (mut messages, mut group, mut bytes) = (Vec::new(), Vec::new(), HEAD_BYTES);
        for state in states {
            let more = STATE_HEAD_BYTES + state.2.len();
            if bytes + more > PAYLOAD_BYTES_MAX || group.len() == usize::from(u8::MAX) {
                messages.push(Self::States(std::mem::take(&mut group)));
                bytes = HEAD_BYTES;
                if messages.len() == most {
                    return messages;
                }
            }
            bytes += more;
            group.push(state);
        }
        if !group.is_empty() {
            messages.push(Self::States(group));
        }
        messages
    }
}

fn parse_state(from: &mut Bytes) -> Option<(Id, u32, Vec<u8>)> {
    let (id, version, len) = (from.id()?, from.u32()?, usize::from(from.u16()?));
    let is_valid = len <= STATE_BYTES_MAX && version <= STATE_VERSION_MAX;
    is_valid.then_some(())?;
    Some((id, version, from.take(len)?.to_vec()))
}

impl Beat {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_bytes());
        for number in [self.counter, self.catalog, self.wal] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.state_version.to_le_bytes());
        out.push(if self.is_draining { DRAINING } else { 0 } | if self.has_left { LEFT } else { 0 });
    }

    fn parse(from: &mut Bytes) -> Option<Self> {
        let (id, counter, catalog, wal) = (from.id()?, from.u64()?, from.u64()?, from.u64()?);
        let (state_version, flags) = (from.u32()?, from.u8()?);
        let is_valid = counter <= COUNTER_MAX && state_version <= STATE_VERSION_MAX;
        let (is_draining, has_left) = (flags & DRAINING != 0, flags & LEFT != 0);
        is_valid.then_some(Self { id, counter, catalog, wal, state_version, is_draining, has_left })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn beat(number: u64) -> Beat {
        Beat {
            id: Id((u128::from(number) << 70) | 5),
            counter: number,
            catalog: u64::MAX,
            wal: number * 3,
            state_version: 7,
            is_draining: number.is_multiple_of(2),
            has_left: number.is_multiple_of(3),
        }
    }

    fn messages() -> Vec<Message> {
        let beats = |number| (1..=number).map(beat).collect();
        vec![
            Message::Beats { asks: true, beats: beats(3) },
            Message::Beats { asks: false, beats: beats(BEATS_MAX as u64) },
            Message::Wanted((0..WANTED_MAX as u128).map(Id).collect()),
            Message::States(vec![(Id(1), 2, vec![3; STATE_BYTES_MAX])]),
            Message::States(vec![(Id(1), 2, b"one".to_vec()), (Id(2), STATE_VERSION_MAX, Vec::new())]),
            Message::Wanted(Vec::new()),
        ]
    }

    #[test]
    fn messages_are_read_as_written_and_refused_when_cut_or_longer() {
        for message in messages() {
            let mut payload = message.encode();
            assert!(payload.len() <= PAYLOAD_BYTES_MAX);
            assert_eq!(Message::parse(&payload).as_ref(), Some(&message));
            for len in 0..payload.len() {
                assert_eq!(Message::parse(&payload[..len]), None, "cut at {len}");
            }
            payload.push(0);
            assert_eq!(Message::parse(&payload), None);
        }
    }

    #[test]
    fn numbers_that_no_process_reaches_are_refused() {
        let parsed = |beat| Message::parse(&Message::Beats { asks: false, beats: vec![beat] }.encode());
        assert!(parsed(Beat { counter: COUNTER_MAX, state_version: STATE_VERSION_MAX, ..beat(1) }).is_some());
        assert!(parsed(Beat { counter: COUNTER_MAX + 1, ..beat(1) }).is_none());
        assert!(parsed(Beat { state_version: STATE_VERSION_MAX + 1, ..beat(1) }).is_none());
    }

    #[test]
    fn states_are_split_so_that_each_message_fits_and_no_more_than_asked_for() {
        let states = || (0..20).map(|number| (Id(number), 1, vec![0; 100 * (number as usize % 10)]));
        let all = Message::of_states(states(), 100);
        let number: usize = all
            .iter()
            .map(|message| {
                assert_eq!(Message::parse(&message.encode()).as_ref(), Some(message));
                let Message::States(states) = message else { panic!("{message:?}") };
                states.len()
            })
            .sum();
        assert_eq!(number, 20);
        assert_eq!(Message::of_states(states(), 2), all[..2]);
    }

    /// The bytes of version 1. Later versions must keep this test.
    #[test]
    fn version_1_has_these_bytes() {
        let mut messages = messages();
        messages[2] = Message::Wanted(vec![Id(1), Id(u128::MAX)]);
        let hex: Vec<String> = [0, 2, 4, 5]
            .into_iter()
            .map(|at| messages[at].encode().iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        assert_eq!(hex.join("\n"), include_str!("../fixtures/messages-1.hex").trim());
    }

    proptest! {
        #[test]
        fn arbitrary_payloads_are_parsed_or_refused(
            kind in 0u8..6,
            bytes in proptest::collection::vec(any::<u8>(), 0..1_300),
        ) {
            let mut payload = vec![kind];
            payload.extend(bytes);
            if let Some(message) = Message::parse(&payload) {
                prop_assert_eq!(Message::parse(&message.encode()), Some(message));
            }
        }
    }
}

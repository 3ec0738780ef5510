//! The sealed form of a datagram: what is parsed before anything is authenticated.
//!
//! ```text
//!  0  magic "SDG", version 1      4 bytes
//!  4  sender                     16 bytes   id of the process start
//! 20  sent                        8 bytes   milliseconds since the epoch, little endian
//! 28  nonce                      12 bytes   random
//! 40  payload, sealed             n bytes
//!     tag                        16 bytes
//! ```
//!
//! The first 28 bytes are the associated data of AES-256-GCM. The key depends on the cluster, the secret
//! and the sender ([`KeyRing`]).
//!
//! **Invariants.** A datagram fits into the smallest packet that IPv6 requires networks to carry, so it is
//! never fragmented. Opening uses the stack only: a datagram that is not authentic allocates nothing.

use ring::aead::{Aad, NONCE_LEN, Nonce};
use sandur_base::Id;

use crate::key_ring::KeyRing;

/// Bytes of a datagram, at most: 1,280 of an IPv6 packet less 40 and 8 of the headers of IP and UDP.
pub const DATAGRAM_BYTES_MAX: usize = 1_232;
/// Bytes of a payload, at most.
pub const PAYLOAD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - PREFIX_BYTES - TAG_BYTES;

const MAGIC: [u8; 4] = *b"SDG\x01";
const AAD_BYTES: usize = 28;
const PREFIX_BYTES: usize = AAD_BYTES + NONCE_LEN;
const TAG_BYTES: usize = 16;

/// Why a datagram is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refused {
    /// It is shorter or longer than a datagram can be.
    Length,
    /// It does not begin with the magic bytes, or has another version.
    Version,
    /// This process sent it, and received it again.
    Own,
    /// It was sent too long ago, or in the future, by the clock of this machine.
    Clock,
    /// No key opens it.
    Key,
    /// It was received before.
    Replay,
    /// More datagrams arrived than are remembered.
    ReplayFull,
    /// More datagrams arrived than are opened.
    Rate,
    /// It is authentic, but its content is not a message.
    Malformed,
}

impl Refused {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Length,
        Self::Version,
        Self::Own,
        Self::Clock,
        Self::Key,
        Self::Replay,
        Self::ReplayFull,
        Self::Rate,
        Self::Malformed,
    ];

    /// The reason as a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Version => "version",
            Self::Own => "own",
            Self::Clock => "clock",
            Self::Key => "key",
            Self::Replay => "replay",
            Self::ReplayFull => "replay_full",
            Self::Rate => "rate",
            Self::Malformed => "malformed",
        }
    }
}

/// What a datagram says in the clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The process start that sent it.
    pub sender: Id,
    /// When it was sent by the sender's clock: milliseconds since the epoch.
    pub sent_ms: i64,
    /// Its nonce.
    pub nonce: [u8; NONCE_LEN],
}

impl Header {
    /// Parses the bytes before the payload. Nothing in them is authentic yet.
    pub fn parse(datagram: &[u8]) -> Result<Self, Refused> {
        if datagram.len() < PREFIX_BYTES + TAG_BYTES || datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Refused::Length);
        }
        if datagram[..4] != MAGIC {
            return Err(Refused::Version);
        }
        let (mut sender, mut sent, mut nonce) = ([0; 16], [0; 8], [0; NONCE_LEN]);
        sender.copy_from_slice(&datagram[4..20]);
        sent.copy_from_slice(&datagram[20..AAD_BYTES]);
        nonce.copy_from_slice(&datagram[AAD_BYTES..PREFIX_BYTES]);
        Ok(Self { sender: Id::from_bytes(sender), sent_ms: i64::from_le_bytes(sent), nonce })
    }
}

/// A datagram on the stack.
pub struct Sealed {
    bytes: [u8; DATAGRAM_BYTES_MAX],
    len: usize,
}

impl Sealed {
    /// Seals a payload of at most [`PAYLOAD_BYTES_MAX`] bytes.
    pub fn new(ring: &KeyRing, header: Header, payload: &[u8]) -> Self {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "messages are cut before they are sealed");
        let mut bytes = [0; DATAGRAM_BYTES_MAX];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..20].copy_from_slice(&header.sender.to_bytes());
        bytes[20..AAD_BYTES].copy_from_slice(&header.sent_ms.to_le_bytes());
        bytes[AAD_BYTES..PREFIX_BYTES].copy_from_slice(&header.nonce);
        let end = PREFIX_BYTES + payload.len();
        bytes[PREFIX_BYTES..end].copy_from_slice(payload);
        let (prefix, rest) = bytes.split_at_mut(PREFIX_BYTES);
        let nonce = Nonce::assume_unique_for_key(header.nonce);
        let sealed = ring.sealing(header.sender).seal_in_place_separate_tag(
            nonce,
            Aad::from(&prefix[..AAD_BYTES]),
            &mut rest[..payload.len()],
        );
        let tag = sealed.expect("a datagram is shorter than the limit of AES-GCM");
        bytes[end..end + TAG_BYTES].copy_from_slice(tag.as_ref());
        Self { bytes, len: end + TAG_BYTES }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// An authentic payload on the stack.
pub struct Opened {
    bytes: [u8; DATAGRAM_BYTES_MAX],
    len: usize,
}

impl Opened {
    /// Opens a datagram with the keys of its sender.
    pub fn new(ring: &KeyRing, header: &Header, datagram: &[u8]) -> Result<Self, Refused> {
        let sealed = datagram.get(PREFIX_BYTES..).ok_or(Refused::Length)?;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Refused::Length);
        }
        for key in ring.opening(header.sender) {
            // A key that does not fit may overwrite the bytes, so each key gets a copy.
            let mut bytes = [0; DATAGRAM_BYTES_MAX];
            bytes[..sealed.len()].copy_from_slice(sealed);
            let (nonce, aad) =
                (Nonce::assume_unique_for_key(header.nonce), Aad::from(&datagram[..AAD_BYTES]));
            if let Ok(payload) = key.open_in_place(nonce, aad, &mut bytes[..sealed.len()]) {
                let len = payload.len();
                return Ok(Self { bytes, len });
            }
        }
        Err(Refused::Key)
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "an old secret of more than 32 bytes, old";
    const NEW: &str = "a new secret of more than 32 bytes, new";

    fn ring(text: &str) -> KeyRing {
        KeyRing::from_lines(text.as_bytes(), "s3://bucket").unwrap()
    }

    fn header() -> Header {
        Header { sender: Id(77), sent_ms: 1_790_000_000_000, nonce: [9; 12] }
    }

    fn open(ring: &KeyRing, datagram: &[u8]) -> Result<Vec<u8>, Refused> {
        let header = Header::parse(datagram)?;
        Opened::new(ring, &header, datagram).map(|opened| opened.payload().to_vec())
    }

    #[test]
    fn a_payload_is_read_as_it_was_sealed_and_any_changed_bit_refuses_it() {
        let sealed = Sealed::new(&ring(OLD), header(), b"payload");
        assert_eq!(open(&ring(OLD), sealed.as_bytes()).unwrap(), b"payload");
        assert!(!sealed.as_bytes().windows(7).any(|bytes| bytes == b"payload"));
        for at in 0..sealed.as_bytes().len() {
            let mut changed = sealed.as_bytes().to_vec();
            changed[at] ^= 1;
            let refused = open(&ring(OLD), &changed).unwrap_err();
            assert_eq!(refused, if at < 4 { Refused::Version } else { Refused::Key }, "byte {at}");
            let cut = open(&ring(OLD), &sealed.as_bytes()[..at]).unwrap_err();
            assert!(matches!(cut, Refused::Length | Refused::Key), "{cut:?}");
        }
    }

    #[test]
    fn another_secret_or_another_cluster_opens_nothing() {
        let sealed = Sealed::new(&ring(OLD), header(), b"payload");
        assert_eq!(open(&ring(NEW), sealed.as_bytes()), Err(Refused::Key));
        let other = KeyRing::from_lines(OLD.as_bytes(), "s3://bucket2").unwrap();
        assert_eq!(open(&other, sealed.as_bytes()), Err(Refused::Key));
        assert_eq!(open(&KeyRing::without_secret("s3://bucket"), sealed.as_bytes()), Err(Refused::Key));
    }

    /// The three steps of a rotation, in which neighbouring steps run at the same time.
    #[test]
    fn secrets_are_rotated_without_a_moment_at_which_nodes_do_not_understand_each_other() {
        let steps = [OLD.to_owned(), format!("{OLD}\n{NEW}"), format!("{NEW}\n{OLD}"), NEW.to_owned()]
            .map(|t| ring(&t));
        for pair in steps.windows(2) {
            for (from, to) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let sealed = Sealed::new(from, header(), b"payload");
                assert_eq!(open(to, sealed.as_bytes()).unwrap(), b"payload");
            }
        }
        let sealed = Sealed::new(&steps[3], header(), b"payload");
        assert_eq!(open(&steps[0], sealed.as_bytes()), Err(Refused::Key));
    }

    /// The bytes that version 1 sends. Later versions must keep this test.
    #[test]
    fn version_1_has_these_bytes() {
        let sealed = Sealed::new(&ring(OLD), header(), b"payload");
        let hex: String = sealed.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("../fixtures/datagram-1.hex").trim());
    }

    #[test]
    fn the_largest_payload_fits_and_a_larger_datagram_is_refused() {
        let sealed = Sealed::new(&ring(OLD), header(), &[7; PAYLOAD_BYTES_MAX]);
        assert_eq!(sealed.as_bytes().len(), DATAGRAM_BYTES_MAX);
        assert_eq!(open(&ring(OLD), sealed.as_bytes()).unwrap().len(), PAYLOAD_BYTES_MAX);
        let mut longer = sealed.as_bytes().to_vec();
        longer.push(0);
        assert_eq!(open(&ring(OLD), &longer), Err(Refused::Length));
    }

    /// Measure with `time cargo test -p sandur-membership --lib -- --ignored cost_of_sealing`.
    #[test]
    #[ignore = "a measurement: 100,000 datagrams are sealed and opened"]
    fn cost_of_sealing() {
        let ring = ring(OLD);
        for number in 0..100_000_u64 {
            let mut header = header();
            header.nonce[..8].copy_from_slice(&number.to_le_bytes());
            let sealed = Sealed::new(&ring, header, &[7; PAYLOAD_BYTES_MAX]);
            assert!(Opened::new(&ring, &header, sealed.as_bytes()).is_ok());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..1_500),
            begins: bool,
        ) {
            if begins && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&MAGIC);
            }
            prop_assert!(open(&ring(OLD), &bytes).is_err());
        }
    }
}

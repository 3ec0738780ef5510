//! What a node says about itself. It changes seldom, and has at most [`STATE_BYTES_MAX`] bytes.
//!
//! ```text
//!  version 1                    1 byte
//!  roles                        4 bytes   little endian
//!  cache bytes                  8 bytes   little endian
//!  writer                      16 bytes   zero: none
//!  gossip address               1 byte 4 or 6, 4 or 16 bytes, 2 bytes of the port (little endian)
//!  node, zone, program, peer    each 1 byte of length and as many bytes of graphic ASCII
//!  later fields                 skipped
//! ```
//!
//! **Invariant.** A peer's state is data: parsing it never panics, and allocates at most its own size.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sandur_base::Id;

use crate::bytes::Bytes;
use crate::error::Error;

/// Bytes of a state, at most.
pub const STATE_BYTES_MAX: usize = 1_024;
/// Bytes of a name, at most.
const NAME_BYTES_MAX: usize = 128;
const VERSION: u8 = 1;

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// The stable name of the node, which outlives restarts.
    pub node: String,
    /// The failure domain.
    pub zone: String,
    /// The version of the program.
    pub program: String,
    /// Host and port at which the node serves peers. Empty: it serves none.
    pub peer_address: String,
    /// The address to which gossip for the node is sent.
    pub gossip_address: SocketAddr,
    /// The roles of the node, in the bits of its description in the catalog.
    pub roles: u32,
    /// Bytes of its cache, as the weight in placement.
    pub cache_bytes: u64,
    /// The incarnation under which it writes a WAL; `None` if it writes none.
    pub writer: Option<Id>,
}

impl NodeState {
    /// The bytes of the state.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.roles.to_le_bytes());
        out.extend_from_slice(&self.cache_bytes.to_le_bytes());
        out.extend_from_slice(&self.writer.unwrap_or_default().to_bytes());
        match self.gossip_address.ip() {
            IpAddr::V4(v4) => {
                out.push(4);
                out.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                out.push(6);
                out.extend_from_slice(&v6.octets());
            }
        }
        out.extend_from_slice(&self.gossip_address.port().to_le_bytes());
        let names = [
            ("the name", &self.node),
            ("the zone", &self.zone),
            ("the version", &self.program),
            ("the address for peers", &self.peer_address),
        ];
        for (field, value) in names {
            if !is_name(value.as_bytes()) {
                let rule = "at most 128 printable ASCII characters without spaces are allowed";
                let value = value.chars().take(NAME_BYTES_MAX).collect();
                return Err(Error::Field { field, value, rule });
            }
            out.push(value.len() as u8);
            out.extend_from_slice(value.as_bytes());
        }
        match out.len() {
            bytes if bytes > STATE_BYTES_MAX => Err(Error::StateTooLarge { bytes, max: STATE_BYTES_MAX }),
            _ => Ok(out),
        }
    }

    /// Parses the state of a peer; `None` if it is not one. Fields of later versions are skipped.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > STATE_BYTES_MAX {
            return None;
        }
        let mut from = Bytes::new(bytes);
        if from.u8()? != VERSION {
            return None;
        }
        let (roles, cache_bytes, writer) = (from.u32()?, from.u64()?, from.id()?);
        let ip = match from.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(from.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(from.array::<16>()?)),
            _ => return None,
        };
        let gossip_address = SocketAddr::new(ip, from.u16()?);
        if ip.is_unspecified() || ip.is_multicast() || gossip_address.port() == 0 {
            return None;
        }
        let mut name = || {
            let len = usize::from(from.u8()?);
            let bytes = from.take(len)?;
            is_name(bytes).then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        let (node, zone, program, peer_address) = (name()?, name()?, name()?, name()?);
        let writer = (writer != Id::default()).then_some(writer);
        Some(Self { node, zone, program, peer_address, gossip_address, roles, cache_bytes, writer })
    }
}

fn is_name(bytes: &[u8]) -> bool {
    bytes.len() <= NAME_BYTES_MAX && bytes.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The state of a node of tests.
    pub(crate) fn state_of(number: u16) -> NodeState {
        NodeState {
            node: format!("node-{number}"),
            zone: format!("zone-{}", number % 3),
            program: "0.1.0".to_owned(),
            peer_address: format!("10.0.0.1:{number}"),
            gossip_address: SocketAddr::from(([10, 0, 0, 1], number)),
            roles: 0b1_1111,
            cache_bytes: 1 << 30,
            writer: Some(Id(u128::from(number))),
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written_with_or_without_later_fields() {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 3101));
        for state in [state_of(1), NodeState { writer: None, gossip_address: v6, ..state_of(2) }] {
            let mut bytes = state.encode().unwrap();
            assert_eq!(NodeState::parse(&bytes).as_ref(), Some(&state));
            for len in 0..bytes.len() {
                assert_eq!(NodeState::parse(&bytes[..len]), None, "cut at {len}");
            }
            bytes.extend_from_slice(b"what a later version adds");
            assert_eq!(NodeState::parse(&bytes), Some(state));
        }
    }

    #[test]
    fn names_that_are_too_long_or_not_printable_are_errors_that_say_so() {
        let long = NodeState { zone: "z".repeat(129), ..state_of(1) }.encode().unwrap_err().to_string();
        assert!(long.contains("the zone") && long.contains("at most 128"), "{long}");
        for wrong in ["with space", "line\nbreak", "ümlaut", "\u{1b}[31m"] {
            assert!(NodeState { node: wrong.to_owned(), ..state_of(1) }.encode().is_err(), "{wrong:?}");
        }
        let full = "x".repeat(128);
        let most = NodeState {
            node: full.clone(),
            zone: full.clone(),
            program: full.clone(),
            peer_address: full,
            ..state_of(1)
        };
        assert!(most.encode().unwrap().len() <= STATE_BYTES_MAX);
    }

    /// A peer must not make this process send datagrams to an address that is none.
    #[test]
    fn addresses_that_are_none_are_refused() {
        for wrong in ["0.0.0.0:1", "[::]:1", "10.0.0.1:0", "224.0.0.1:9"] {
            let state = NodeState { gossip_address: wrong.parse().unwrap(), ..state_of(1) };
            assert_eq!(NodeState::parse(&state.encode().unwrap()), None, "{wrong}");
        }
    }

    #[test]
    fn version_1_has_these_bytes() {
        let hex: String = state_of(1).encode().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, include_str!("../fixtures/state-1.hex").trim());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Some(state) = NodeState::parse(&bytes) {
                prop_assert_eq!(NodeState::parse(&state.encode().unwrap()), Some(state));
            }
        }
    }
}

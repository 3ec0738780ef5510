//! Datagrams of gossip: sealed ones as anybody can send them, and the messages of peers that lie.
//!
//! The first byte of the input chooses what the rest is: a datagram, the state of a node, or payloads one
//! after the other, each after two bytes of its length, that a node takes as if they were authentic.

use std::time::Duration;

use sandur_base::Id;
use sandur_membership::{
    Gossip, Header, Message, NODES_MAX, NodeState, Opened, PAYLOAD_BYTES_MAX, Refused, STATE_BYTES_MAX,
    open_once,
};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// Datagrams that a payload may cause.
const ANSWERS_MAX: usize = 5;

/// Runs the input.
pub fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 3 {
        0 => datagram(bytes),
        1 => state(bytes),
        _ => payloads(bytes),
    }
}

/// Nothing that was not sealed with the secret is opened.
fn datagram(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else {
        assert!(matches!(open_once(SECRET, 0, bytes), Err(Refused::Length | Refused::Version)));
        return;
    };
    match open_once(SECRET, header.sent_ms, bytes) {
        Ok(payload) => {
            let ring =
                sandur_membership::KeyRing::from_lines(SECRET, "fuzzing").expect("the secret is valid");
            let opened = Opened::new(&ring, &header, bytes).map(|opened| opened.payload().to_vec());
            assert_eq!(opened.ok(), Some(payload.clone()));
            let _ = Message::parse(&payload);
        }
        Err(refused) => assert!(matches!(refused, Refused::Key | Refused::Own), "{refused:?}"),
    }
}

fn state(bytes: &[u8]) {
    let Some(state) = NodeState::parse(bytes) else { return };
    let encoded = state.encode().expect("what was parsed can be encoded");
    assert!(encoded.len() <= STATE_BYTES_MAX);
    assert_eq!(NodeState::parse(&encoded).as_ref(), Some(&state));
}

/// A node that takes any payloads stays within its bounds and sends only valid messages.
fn payloads(mut bytes: &[u8]) {
    let (own, peer) = (node(1), node(2));
    let mut gossip = Gossip::new(Id(1), &own).expect("the state is valid");
    let mut now = Duration::from_secs(1);
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (payload, after) = rest.split_at(length);
        bytes = after;
        now += Duration::from_millis(300);
        let (sender, from) = (Id(2 + length as u128 % 3), peer.gossip_address);
        let taken = gossip.take(now, (sender, from), payload);
        let message = Message::parse(payload);
        assert_eq!(taken.is_err(), message.is_none());
        if let Some(message) = message {
            assert_eq!(Message::parse(&message.encode()), Some(message), "read back unchanged");
        }
        let mut sent = taken.unwrap_or_default();
        assert!(sent.len() <= ANSWERS_MAX && sent.iter().all(|outgoing| outgoing.to == from));
        sent.extend(gossip.tick(now, &[from], &mut |_| 0));
        sent.extend(gossip.push(now, &mut |_| 0));
        for outgoing in sent {
            assert!(
                outgoing.payload.len() <= PAYLOAD_BYTES_MAX && Message::parse(&outgoing.payload).is_some()
            );
        }
        assert!(gossip.view(now).peers.len() <= NODES_MAX);
    }
}

fn node(number: u16) -> NodeState {
    NodeState {
        node: format!("node-{number}"),
        zone: "zone".to_owned(),
        program: "1".to_owned(),
        peer_address: String::new(),
        gossip_address: ([10, 0, 0, 1], number).into(),
        roles: 31,
        cache_bytes: 1,
        writer: Some(Id(u128::from(number))),
    }
}

#[cfg(test)]
mod tests {
    use sandur_membership::{Beat, KeyRing, Sealed};

    use super::super::seeds;
    use super::*;

    fn inputs() -> Vec<Vec<u8>> {
        let with = |choice: u8, bytes: &[u8]| [&[choice], bytes].concat();
        let ring = KeyRing::from_lines(SECRET, "fuzzing").unwrap();
        let beat =
            |number: u128, counter| Beat { id: Id(number), counter, state_version: 1, ..Beat::default() };
        let messages = [
            Message::Beats { asks: true, beats: vec![beat(2, 1), beat(3, 7), beat(1, 99)] },
            Message::States(vec![
                (Id(2), 1, node(2).encode().unwrap()),
                (Id(3), 1, node(3).encode().unwrap()),
            ]),
            Message::Beats { asks: false, beats: vec![beat(2, 2), Beat { has_left: true, ..beat(3, 8) }] },
            Message::Wanted(vec![Id(1), Id(2), Id(9)]),
        ];
        let mut inputs = vec![with(1, &node(1).encode().unwrap())];
        let mut all = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            let payload = message.encode();
            let header = Header { sender: Id(2), sent_ms: 1_790_000_000_000, nonce: [number as u8; 12] };
            inputs.push(with(0, Sealed::new(&ring, header, &payload).as_bytes()));
            all.extend_from_slice(&(payload.len() as u16).to_le_bytes());
            all.extend(payload);
        }
        inputs.push(with(2, &all));
        inputs
    }

    #[test]
    fn changed_datagrams_and_messages_are_refused_or_bounded() {
        seeds::run_changed(run, inputs(), 1, |_| 1);
    }

    /// The target reaches what it is meant to reach.
    #[test]
    fn the_inputs_are_valid() {
        let mut gossip = Gossip::new(Id(1), &node(1)).unwrap();
        let datagrams = inputs().into_iter().filter(|input| input[0] == 0);
        for datagram in datagrams {
            let payload = open_once(SECRET, 1_790_000_000_000, &datagram[1..]).unwrap();
            let from = node(2).gossip_address;
            gossip.take(Duration::from_secs(1), (Id(2), from), &payload).unwrap();
        }
        assert_eq!(gossip.view(Duration::from_secs(1)).peers.len(), 2);
        assert!(gossip.counts().refuted > 0);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_seeds() {
        seeds::write("gossip", "datagram", inputs());
    }
}

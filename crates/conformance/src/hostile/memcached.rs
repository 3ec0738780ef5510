//! Conversations with the memcached server: no bytes end the process, and the answers do not depend on
//! how the bytes are divided into pieces.

use sandur_memcached::SocketlessServer;

/// Longest input in bytes. A longer command line without an end is refused once enough of it has
/// arrived, so its answer depends on the pieces.
const INPUT_BYTES_MAX: usize = 2_000;
/// Command lines of the servers that inputs are sent to.
const SERVERS: &[&[&str]] = &[
    &["-m", "8"],
    &["-m", "8", "-B", "binary"],
    &["-m", "8", "-B", "binary", "-S"],
    &["-m", "8", "-B", "ascii", "-C", "-D", ":", "-A"],
];
/// Commands whose answers depend on what the process has used, or on the bytes that have arrived after
/// them.
const VARYING_ANSWERS: &[&[u8]] = &[b"stats", b"dump", b"watch", b"GET /", b"POST /"];
/// Opcode of `stats` in the binary protocol.
const BINARY_STATS: u8 = 0x10;

/// The first byte chooses a server, the second the length of the pieces. The rest is sent at once to one
/// server, and in pieces to a second server of the same kind.
pub fn run(input: &[u8]) {
    let [choice, piece, sent @ ..] = input else { return };
    if sent.len() > INPUT_BYTES_MAX {
        return;
    }
    let arguments = SERVERS[usize::from(*choice) % SERVERS.len()];
    let Some(whole) = conversation(arguments, [sent]) else { return };
    if sent.contains(&BINARY_STATS)
        || VARYING_ANSWERS.iter().any(|text| sent.windows(text.len()).any(|at| at == *text))
    {
        return;
    }
    let pieces = conversation(arguments, sent.chunks(1 + usize::from(*piece)));
    if let Some(pieces) = pieces {
        let [whole, pieces] = [&whole, &pieces].map(|answers| answers.escape_ascii().to_string());
        assert_eq!(whole, pieces, "pieces of {} bytes have other answers", 1 + usize::from(*piece));
    }
}

/// Returns all answers, or `None` if the client is still waiting for one.
fn conversation<'a>(arguments: &[&str], parts: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let server = SocketlessServer::new(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    let server = server.unwrap_or_else(|| panic!("{arguments:?} serves"));
    let mut client = server.client();
    let mut answers = Vec::new();
    for part in parts {
        answers.append(&mut client.send(part));
    }
    (!client.is_waiting()).then_some(answers)
}

#[cfg(test)]
mod tests {
    use super::super::seeds;
    use super::*;

    const TEXT: &[&str] = &[
        "set a 5 0 2\r\nhi\r\nget a b a\r\ngets a\r\nappend a 0 0 1 noreply\r\n!\r\nincr a 1\r\ndelete a\r\n",
        "ms a 2 T0 F7\r\nhi\r\nmg a s v f t O123 k\r\nmg w v N30 t\r\nmd a q I T30\r\n\
         ma n N0 J13 MD D2 v\r\nmn\r\n",
        "add n 0 0 20\r\n18446744073709551615\r\nincr n 18446744073709551615\r\ntouch n -1\r\n\
         gat 0 n\r\nme n\r\n",
        "slabs reassign 1 2\r\nlru tune 10 20 0.5 3\r\nverbosity 1\r\nflush_all 10\r\ncache_memlimit 9\r\n\
         lru_crawler metadump all\r\nversion\r\n",
        "stats items\r\nstats detail dump\r\nstats cachedump 1 9\r\nwatch fetchers\r\nquit\r\n",
    ];

    fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let body = (extras.len() + key.len() + value.len()) as u32;
        let mut packet = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        packet.extend_from_slice(&body.to_be_bytes());
        packet.extend_from_slice(&[0; 12]);
        packet.extend([extras, key, value].concat());
        packet
    }

    fn inputs() -> Vec<Vec<u8>> {
        let text = TEXT.iter().map(|text| [b"\0\x04", text.as_bytes()].concat());
        let strict = TEXT.iter().map(|text| [b"\x03\x10", text.as_bytes()].concat());
        let binary = [
            [packet(1, &[0; 8], b"a", b"one"), packet(0x0d, &[], b"a", b""), packet(0x0a, &[], b"", b"")],
            [packet(5, &[0; 20], b"n", b""), packet(0x1d, &[0; 4], b"n", b""), packet(4, &[], b"n", b"")],
            [packet(0x0e, &[], b"a", b"+"), packet(8, &[0; 4], b"", b""), packet(7, &[], b"", b"")],
        ];
        let binary = binary.iter().map(|packets| [b"\x01\x06".to_vec(), packets.concat()].concat());
        let sasl = [packet(0x20, &[], b"", b""), packet(0x21, &[], b"PLAIN", b"\0user\0word")].concat();
        text.chain(strict).chain(binary).chain([[b"\x02\x00".to_vec(), sasl].concat()]).collect()
    }

    #[test]
    fn a_conversation_with_any_byte_changed_has_the_same_answers_in_pieces() {
        seeds::run_changed(run, inputs(), 2, |_| 3);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_the_inputs() {
        seeds::write("memcached", "conversation", inputs());
    }
}

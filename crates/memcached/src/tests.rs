//! Tests of the complete protocols, over sessions without sockets.
//!
//! Goal: every command answers as memcached does, however its bytes are split, and no input makes the
//! server panic.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::sync::Arc;

use proptest::prelude::*;

use super::log::Log;
use super::settings::{Binding, Settings};
use super::socketless::SocketlessServer;

fn rig(settings: Settings) -> SocketlessServer {
    rig_with_log(settings, Arc::new(|_: &str| ()))
}

fn rig_with_log(settings: Settings, log: Arc<dyn Log>) -> SocketlessServer {
    SocketlessServer::serving(settings, log).unwrap()
}

impl SocketlessServer {
    /// Returns the answer to a new client.
    fn ask(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.client().send(text.as_bytes())).into_owned()
    }
}

/// A conversation: the bytes sent and the complete answer.
type Exchange = (&'static str, &'static str);

/// Conversations whose answers do not depend on version numbers. Each uses a new server.
const CONVERSATIONS: &[Exchange] = &[
    ("get a\r\n", "END\r\n"),
    ("set a 5 0 2\r\nhi\r\nget a\r\n", "STORED\r\nVALUE a 5 2\r\nhi\r\nEND\r\n"),
    ("  ms a 2\r\nhi\r\n  mg a v\r\n", "HD\r\nVA 2\r\nhi\r\n"),
    ("set a 0 0 0\r\n\r\nget a b a\n", "STORED\r\nVALUE a 0 0\r\n\r\nVALUE a 0 0\r\n\r\nEND\r\n"),
    (
        "set a 0 0 2\r\nhiho\r\nget a\r\n",
        "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command line format\r\nEND\r\n",
    ),
    (
        "set a 0 0 2 noreply\r\nhi\r\nappend a 0 0 1\r\n!\r\nprepend a 0 0 1 noreply\r\n>\r\nget a\r\n",
        "STORED\r\nVALUE a 0 4\r\n>hi!\r\nEND\r\n",
    ),
    (
        "add a 0 0 1\r\n1\r\nadd a 0 0 1\r\n2\r\nreplace a 0 0 1\r\n3\r\nreplace b 0 0 1\r\n4\r\nget a\r\n",
        "STORED\r\nNOT_STORED\r\nSTORED\r\nNOT_STORED\r\nVALUE a 0 1\r\n3\r\nEND\r\n",
    ),
    (
        "cas a 0 0 1 9\r\n1\r\nset a 0 0 1\r\n1\r\ncas a 0 0 1 99999\r\n2\r\ncas a 0 0 1\r\n2\r\n",
        "NOT_FOUND\r\nSTORED\r\nEXISTS\r\nCLIENT_ERROR bad command line format\r\n",
    ),
    (
        "incr a 1\r\nset a 0 0 2\r\n10\r\nincr a 5\r\ndecr a 20\r\nincr a x\r\n\
         set b 0 0 1\r\nx\r\nincr b 1\r\n",
        "NOT_FOUND\r\nSTORED\r\n15\r\n0\r\nCLIENT_ERROR invalid numeric delta argument\r\nSTORED\r\n\
      CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    ),
    (
        "delete a\r\nset a 0 0 1\r\n1\r\ntouch a 0\r\ntouch b 0\r\ndelete a noreply\r\nget a\r\n",
        "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nNOT_FOUND\r\nEND\r\n",
    ),
    (
        "set a 0 -1 1\r\n1\r\nget a\r\nset b 0 0 1\r\n1\r\nflush_all\r\nget b\r\nflush_all x\r\n",
        "STORED\r\nEND\r\nSTORED\r\nOK\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n",
    ),
    (
        "nonsense\r\nget\r\n \nset a b 0 1\r\n1\r\nset a 0 0 -1\r\n",
        "ERROR\r\nCLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n\
      CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n",
    ),
    (
        "mn\r\nmg a v\r\nmg a v q\r\nms a 2 T0 F7\r\nhi\r\nmg a s v f t O123 k\r\nmd a q\r\nmd a\r\n",
        "MN\r\nEN\r\nHD\r\nVA 2 s2 f7 t-1 O123 ka\r\nhi\r\nNF\r\n",
    ),
    (
        "ma n\r\nma n N0 J13 v\r\nma n D7 v t\r\nma n MD D99 v q\r\nmg n v\r\nma n MZ\r\n",
        "NF\r\nVA 2\r\n13\r\nVA 2 t-1\r\n20\r\nVA 1\r\n0\r\nCLIENT_ERROR invalid mode for ma M token\r\n",
    ),
    (
        "ms 44OG44K544OI 2 b k\r\nhi\r\nmg 44OG44K544OI b k v\r\nmg !!! b\r\n",
        "HD k44OG44K544OI b\r\nVA 2 k44OG44K544OI b\r\nhi\r\nCLIENT_ERROR error decoding key\r\n",
    ),
    (
        "mg w v N30 t\r\nmg w v N30\r\nms w 1 T0\r\nx\r\nmd w I T30\r\nmg w v\r\nmg w v\r\n",
        "VA 0 t30 W\r\n\r\nVA 0 Z\r\n\r\nHD\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\n",
    ),
    (
        "ms a S100\r\nms a 1 MZ\r\n1\r\nmn\r\n",
        "CLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid mode for ms M token\r\nMN\r\n",
    ),
    (
        "verbosity x\r\nverbosity 1\r\nslabs automove x\r\nslabs reassign 1 2\r\n\
         lru mode flat\r\nextstore item_age 1\r\n",
        "CLIENT_ERROR bad command line format\r\nOK\r\nCLIENT_ERROR bad command line format\r\n\
      NOSPARE source class has no spare pages\r\nOK\r\nOK\r\n",
    ),
    (
        "shutdown\r\ncache_memlimit 1\r\ncache_memlimit 9\r\ndebugtime 5\r\nstats nonsense\r\n",
        "SERVER_ERROR: shutdown not enabled\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n\
         OK\r\nERROR\r\nERROR\r\n",
    ),
    ("set a 0 0 1\r\n1\r\nquit\r\nget a\r\n", "STORED\r\n"),
    ("GET / HTTP/1.1\r\nget a\r\n", ""),
    ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a 0 0 1\r\n1\r\n", ""),
    ("get /a HTTP/1.1\r\n", "END\r\n"),
];

#[test]
fn commands_answer_as_memcached_does() {
    for (sent, expected) in CONVERSATIONS {
        assert_eq!(&rig(Settings::default()).ask(sent), expected, "{sent:?}");
    }
}

#[test]
fn answers_do_not_depend_on_how_the_input_is_split() {
    for (sent, expected) in CONVERSATIONS {
        for split in 1..sent.len() {
            let rig = rig(Settings::default());
            let mut client = rig.client();
            let (first, second) = sent.as_bytes().split_at(split);
            let mut answers = client.send(first);
            answers.extend(client.send(second));
            assert_eq!(String::from_utf8_lossy(&answers), *expected, "{sent:?} at {split}");
        }
    }
}

#[test]
fn large_values_and_long_multigets_are_answered() {
    let rig = rig(Settings::default());
    let value = "v".repeat(900_000);
    assert_eq!(rig.ask(&format!("set big 0 0 {}\r\n{value}\r\n", value.len())), "STORED\r\n");
    let keys = "big ".repeat(20);
    let answer = rig.ask(&format!("get {keys}\r\n"));
    assert_eq!(answer.matches("VALUE big 0 900000\r\n").count(), 20);
    assert!(answer.ends_with("\r\nEND\r\n"));
    let keys = "k ".repeat(50_000);
    assert_eq!(rig.ask(&format!("get {keys}\r\n")), "END\r\n");
    let too_large = "v".repeat(1 << 20);
    let answer = rig.ask(&format!("set big 0 0 {}\r\n{too_large}\r\nget big\r\n", too_large.len()));
    assert_eq!(answer, "SERVER_ERROR object too large for cache\r\nEND\r\n", "and the old value is removed");
}

#[test]
fn a_key_that_is_too_long_makes_a_multiget_an_error() {
    let rig = rig(Settings::default());
    let long = "k".repeat(251);
    let answer = rig.ask(&format!("set a 0 0 1\r\n1\r\nget a {long}\r\nget a\r\n"));
    assert_eq!(answer, "STORED\r\nCLIENT_ERROR bad command line format\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn a_long_line_without_an_end_closes_the_connection() {
    let rig = rig(Settings::default());
    let mut client = rig.client();
    client.send(&[b'x'; 3000]);
    assert!(client.has_ended());
    let mut client = rig.client();
    client.send(format!("get {}", "k ".repeat(3000)).as_bytes());
    assert!(!client.has_ended(), "a multiget may be long");
}

#[test]
fn the_log_gets_the_level_of_the_verbosity_command() {
    #[derive(Default)]
    struct Heard(std::sync::Mutex<Vec<u32>>);
    impl Log for Heard {
        fn say(&self, _: &str) {}
        fn set_verbosity(&self, level: u32) {
            self.0.lock().unwrap().push(level);
        }
    }
    let heard = Arc::new(Heard::default());
    let rig = rig_with_log(Settings::default(), Arc::clone(&heard) as _);
    assert_eq!(rig.ask("verbosity 2\r\nverbosity 1 noreply\r\n"), "OK\r\n");
    assert_eq!(*heard.0.lock().unwrap(), [2, 1]);
    assert!(rig.ask("stats settings\r\n").contains("STAT verbosity 1\r\n"));
}

#[test]
fn writes_check_version_numbers() {
    let rig = rig(Settings::default());
    let first = rig.ask("set a 0 0 1\r\n1\r\ngets a\r\n");
    let cas: u64 = first.split_whitespace().nth(5).unwrap().parse().unwrap();
    assert_eq!(
        rig.ask(&format!("cas a 0 0 1 {cas}\r\n2\r\ncas a 0 0 1 {cas}\r\n3\r\n")),
        "STORED\r\nEXISTS\r\n"
    );
    assert_eq!(rig.ask("ms a 1 E777 c\r\n4\r\nmg a c C777 v\r\nma a E5\r\n"), "HD c777\r\nHD c777\r\nHD\r\n");
    assert_eq!(rig.ask("mg a c\r\nmd a C4\r\nmd a C5\r\n"), "HD c5\r\nEX\r\nHD\r\n");
    let without = rig_without_cas();
    assert_eq!(without.ask("set a 0 0 1\r\n1\r\ngets a\r\n"), "STORED\r\nVALUE a 0 1 0\r\n1\r\nEND\r\n");
}

fn rig_without_cas() -> SocketlessServer {
    rig(Settings { cas: false, ..Settings::default() })
}

#[test]
fn counters_count_commands_and_restart_at_a_reset() {
    let rig = rig(Settings::default());
    rig.ask("set a 0 0 1\r\n1\r\nget a b\r\ntouch a 0\r\nincr a 1\r\nincr x 1\r\ndelete a\r\ndelete a\r\n");
    let stat = |name: &str| {
        let text = rig.ask("stats\r\n");
        let line = text.lines().find(|line| line.starts_with(&format!("STAT {name} "))).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    for (name, value) in [
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "1"),
        ("cmd_set", "1"),
        ("cmd_touch", "1"),
        ("touch_hits", "1"),
        ("incr_hits", "1"),
        ("incr_misses", "1"),
        ("delete_hits", "1"),
        ("delete_misses", "1"),
        ("curr_items", "0"),
    ] {
        assert_eq!(stat(name), value, "{name}");
    }
    rig.ask("stats reset\r\n");
    assert_eq!(
        (stat("cmd_get"), stat("get_hits"), stat("delete_misses")),
        ("0".into(), "0".into(), "0".into())
    );
}

#[test]
fn items_are_listed_by_slab_class_and_by_key() {
    let rig = rig(Settings { track_sizes: true, ..Settings::default() });
    rig.ask("set key 3 0 5\r\nhello\r\nms /w== 1 b\r\n1\r\n");
    let items = rig.ask("stats items\r\n");
    assert!(items.contains("STAT items:1:number 2\r\n") && items.ends_with("END\r\n"), "{items}");
    assert!(rig.ask("stats slabs\r\n").contains("STAT 1:used_chunks 2\r\n"));
    assert_eq!(rig.ask("stats sizes\r\n"), "STAT 64 1\r\nSTAT 96 1\r\nEND\r\n");
    assert_eq!(rig.ask("stats cachedump 1 0\r\n"), "ITEM key [5 b; 0 s]\r\nEND\r\n");
}

/// An announced value takes no memory from other items until its bytes arrive.
#[test]
fn announced_values_that_are_never_sent_evict_nothing() {
    let rig = rig(Settings { memory_bytes: 16 << 20, ..Settings::default() });
    let evicted = || rig.server.cache.stats().ram.evicted;
    let mut writer = rig.client();
    for key in 0..50 {
        let set = [format!("set k{key} 0 0 100000\r\n").into_bytes(), vec![b'x'; 100_000], b"\r\n".to_vec()];
        assert_eq!(writer.send(&set.concat()), b"STORED\r\n");
    }
    assert_eq!(evicted(), 0);
    let mut waiting: Vec<_> = (0..40).map(|_| rig.client()).collect();
    for client in &mut waiting {
        assert_eq!(client.send(b"set large 0 0 1000000\r\nxyz"), b"");
    }
    assert_eq!(evicted(), 0, "40 MB were announced and 120 bytes received");
    for client in &mut waiting {
        client.send(&[b'x'; 600_000]);
    }
    assert!(evicted() > 0, "received bytes use memory");
    let ends = waiting.iter_mut().map(|client| client.send(&[&[b'x'; 399_997][..], b"\r\n"].concat()));
    let ends: Vec<_> = ends.map(|answer| String::from_utf8(answer).unwrap()).collect();
    assert!(ends.iter().any(|answer| answer == "STORED\r\n"), "{ends:?}");
    assert!(ends.iter().all(|answer| answer == "STORED\r\n" || answer.is_empty()), "{ends:?}");
}

#[test]
fn users_must_authenticate_if_there_is_a_user_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "foo:bar\n").unwrap();
    let rig = rig(Settings { auth_file: Some(file), protocol: Binding::Ascii, ..Settings::default() });
    assert_eq!(rig.ask("get a\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(rig.ask("set a 0 0 7\r\nfoo bab\r\n"), "CLIENT_ERROR authentication failure\r\n");
    assert_eq!(rig.ask("set a 0 0 7\r\nfoo bar\r\nset a 0 0 1\r\n1\r\n"), "STORED\r\nSTORED\r\n");
}

/// Encodes a packet of the binary protocol.
fn packet(opcode: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut packet = vec![0x80, opcode];
    packet.extend_from_slice(&(key.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    packet.extend_from_slice(&body.to_be_bytes());
    packet.extend_from_slice(&[1, 2, 3, 4]);
    packet.extend_from_slice(&cas.to_be_bytes());
    packet.extend([extras, key, value].concat());
    packet
}

/// Opcode, status, extras, key and value of an answer.
type Packet = (u8, u16, Vec<u8>, Vec<u8>, Vec<u8>);

/// Parses the answers.
fn answers(bytes: &[u8]) -> Vec<Packet> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        assert_eq!((rest[0], &rest[12..16]), (0x81, [1, 2, 3, 4].as_slice()));
        let key = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let extras = usize::from(rest[4]);
        let status = u16::from_be_bytes([rest[6], rest[7]]);
        let body = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, after) = rest.split_at(24 + body);
        let parts = &packet[24..];
        let (extra, parts) = parts.split_at(extras);
        let (name, value) = parts.split_at(key);
        found.push((packet[1], status, extra.to_vec(), name.to_vec(), value.to_vec()));
        rest = after;
    }
    found
}

/// memcached skips blanks before a number, and a NUL ends it. Such values used to be rejected as not
/// numeric.
#[test]
fn numbers_after_blanks_or_before_a_nul_are_changed_in_every_protocol() {
    let asked = "set a 0 0 3\r\n 12\r\nincr a 1\r\nset a 0 0 3\r\n12\0\r\ndecr a 1\r\n\
                 set a 0 0 5\r\n\t 12 \r\nma a v\r\n\
                 get a\r\n";
    let expected = "STORED\r\n13\r\nSTORED\r\n11\r\nSTORED\r\nVA 2\r\n13\r\nVALUE a 0 2\r\n13\r\nEND\r\n";
    assert_eq!(rig(Settings::default()).ask(asked), expected);
    let by_one = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255];
    let sent = [packet(0x01, 0, &[0; 8], b"n", b" 12\0"), packet(0x05, 0, &by_one, b"n", b"")].concat();
    let answered = answers(&rig(Settings::default()).client().send(&sent));
    assert_eq!(answered[1], (0x05, 0, Vec::new(), Vec::new(), vec![0, 0, 0, 0, 0, 0, 0, 13]));
}

fn binary_conversation() -> Vec<u8> {
    let (set, none) = ([0, 0, 0, 5, 0, 0, 0, 0], [].as_slice());
    let incr = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0];
    [
        packet(0x01, 0, &set, b"a", b"one"),
        packet(0x11, 0, &set, b"quiet", b"two"),
        packet(0x00, 0, none, b"a", none),
        packet(0x0d, 0, none, b"missing", none),
        packet(0x0c, 0, none, b"missing", none),
        packet(0x0e, 0, none, b"a", b"+"),
        packet(0x0c, 0, none, b"a", none),
        packet(0x02, 0, &set, b"a", b"x"),
        packet(0x05, 0, &incr, b"n", none),
        packet(0x05, 0, &incr, b"n", none),
        packet(0x05, 0, &incr, b"a", none),
        packet(0x04, 0, none, b"a", none),
        packet(0x7f, 0, none, b"k", b"unknown"),
        packet(0x0a, 0, none, none, none),
    ]
    .concat()
}

#[test]
fn binary_answers_do_not_depend_on_how_the_input_is_split() {
    let sent = binary_conversation();
    let whole = answers(&rig(Settings::default()).client().send(&sent));
    let seen: Vec<(u8, u16)> = whole.iter().map(|answer| (answer.0, answer.1)).collect();
    let expected = [
        (0x01, 0),
        (0x00, 0),
        (0x0c, 1),
        (0x0e, 0),
        (0x0c, 0),
        (0x02, 2),
        (0x05, 0),
        (0x05, 0),
        (0x05, 6),
        (0x04, 0),
        (0x7f, 0x81),
        (0x0a, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!((whole[1].2.as_slice(), whole[1].4.as_slice()), ([0, 0, 0, 5].as_slice(), b"one".as_slice()));
    assert_eq!((whole[4].3.as_slice(), whole[4].4.as_slice()), (b"a".as_slice(), b"one+".as_slice()));
    assert_eq!((whole[6].4[7], whole[7].4[7]), (9, 11));
    for split in 1..sent.len() {
        let rig = rig(Settings::default());
        let mut client = rig.client();
        let mut bytes = client.send(&sent[..split]);
        bytes.extend(client.send(&sent[split..]));
        assert_eq!(answers(&bytes), whole, "at {split}");
    }
}

#[test]
fn sasl_is_required_for_the_binary_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "user:secret\n").unwrap();
    // without MEMCACHED_SASL_PWDB there are no users, so this tests refusals only
    let rig = rig(Settings { sasl: true, protocol: Binding::Binary, ..Settings::default() });
    let status = |bytes: Vec<u8>| answers(&rig.client().send(&bytes))[0].1;
    assert_eq!(status(packet(0x0b, 0, &[], &[], &[])), 0, "version needs no authentication");
    assert_eq!(status(packet(0x20, 0, &[], &[], &[])), 0, "nor does the list of mechanisms");
    assert_eq!(status(packet(0x00, 0, &[], b"a", &[])), 0x20);
    assert_eq!(status(packet(0x21, 0, &[], b"PLAIN", b"\0user\0secret")), 0x20);
    assert_eq!(status(packet(0x21, 0, &[], &[b'X'; 40], b"message")), 4);
}

#[test]
fn a_failed_second_authentication_revokes_the_first() {
    for wrong in [
        packet(0x21, 0, &[], b"PLAIN", b"\0user\0other"),
        packet(0x21, 0, &[], &[b'X'; 40], b"message"),
        packet(0x22, 0, &[], b"PLAIN", b"\0user\0secret"),
    ] {
        let rig = rig(Settings { sasl: true, protocol: Binding::Binary, ..Settings::default() });
        let mut client = rig.client();
        client.session.authenticated = true;
        assert_eq!(answers(&client.send(&packet(0x00, 0, &[], b"a", &[])))[0].1, 1, "not found");
        assert_ne!(answers(&client.send(&wrong))[0].1, 0);
        assert_eq!(answers(&client.send(&packet(0x00, 0, &[], b"a", &[])))[0].1, 0x20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_bytes_make_a_session_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        binding in prop_oneof![Just(Binding::Auto), Just(Binding::Ascii), Just(Binding::Binary)],
    ) {
        rig(Settings { protocol: binding, ..Settings::default() }).client().send(&bytes);
    }

    #[test]
    fn no_words_make_a_session_panic(
        words in proptest::collection::vec(
            prop_oneof![
                (0..super::commands::TEXT.len()).prop_map(|at| super::commands::TEXT[at].name.to_owned()),
                "[a-zA-Z]{1,3}[0-9]{0,20}",
                "-?[0-9]{1,20}",
                Just("\r\n".to_owned()),
                Just("noreply".to_owned()),
                Just("all".to_owned()),
            ],
            0..40,
        ),
    ) {
        let settings = Settings { watch_allowed: true, shutdown_allowed: true, ..Settings::default() };
        rig(settings).client().send(words.join(" ").as_bytes());
    }

    #[test]
    fn random_splits_change_nothing(
        which in 0..CONVERSATIONS.len(),
        cuts in proptest::collection::vec(0usize..400, 0..8),
    ) {
        let (sent, expected) = CONVERSATIONS[which];
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(sent.len())).collect();
        cuts.extend([0, sent.len()]);
        cuts.sort_unstable();
        let rig = rig(Settings::default());
        let mut client = rig.client();
        let mut answers = Vec::new();
        for pair in cuts.windows(2) {
            answers.extend(client.send(&sent.as_bytes()[pair[0]..pair[1]]));
        }
        prop_assert_eq!(String::from_utf8_lossy(&answers), expected);
    }
}

/// A web page's request used to close its connection without being counted.
#[test]
fn http_requests_are_counted() {
    let rig = rig(Settings::default());
    assert!(!rig.ask("stats\r\n").contains("http_requests"));
    for _ in 0..2 {
        assert_eq!(rig.ask("POST / HTTP/1.1\r\n\r\nset a 0 0 1\r\n1\r\n"), "");
    }
    assert!(rig.ask("stats\r\n").contains("STAT http_requests 2\r\n"));
}

//! Input that tries to use more resources than its size justifies.

use std::ops::ControlFlow;

use sandur_carbon::{PICKLE, PICKLE_VALUES_MAX, PLAINTEXT, PROTOCOLS, Point, Refusal, Sink};

#[derive(Default)]
struct Counted {
    points: usize,
    refused: Vec<&'static str>,
    breaks_at: Option<usize>,
}

impl Sink for Counted {
    fn point(&mut self, _: Point<'_>) -> ControlFlow<()> {
        self.points += 1;
        if self.breaks_at == Some(self.points) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn refused(&mut self, refusal: Refusal, _: &[u8]) {
        self.refused.push(refusal.reason().name());
    }
}

fn pickled(payload: &[u8]) -> Counted {
    let mut counted = Counted::default();
    let _ = (PICKLE.read_alone)(payload, 0, &mut counted);
    counted
}

#[test]
fn a_pickle_with_too_many_values_is_refused() {
    for payload in [vec![b'N'; PICKLE_VALUES_MAX + 2], vec![b']'; PICKLE_VALUES_MAX + 2], {
        let mut copies = vec![b']'];
        copies.resize(PICKLE_VALUES_MAX + 2, b'2');
        copies
    }] {
        assert_eq!(pickled(&payload).refused, ["pickle_malformed"]);
    }
}

#[test]
fn nested_tuples_of_a_pickle_do_not_overflow_the_stack() {
    let mut payload = vec![b')'];
    payload.resize(200_000, 0x85);
    payload.push(b'.');
    let counted = pickled(&payload);
    assert_eq!((counted.points, counted.refused), (0, vec!["pickle_shape"]));
}

#[test]
fn announced_lengths_beyond_the_payload_are_refused() {
    for payload in [
        &b"X\xff\xff\xff\xff"[..],
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8b\xff\xff\xff\x7f",
        b"\x8b\xff\xff\xff\xff",
        b"T\xff\xff\xff\xffx.",
        b"B\xff\xff\xff\xff",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"S'x",
        b"",
        b"a",
        b"l",
        b"t",
        b"e",
        b"1",
        b"h\x05.",
    ] {
        assert_eq!(pickled(payload).refused, ["pickle_malformed"], "{payload:?}");
    }
}

#[test]
fn every_operation_that_points_do_not_need_is_refused() {
    let known = b"()].01205abeghijlpqrtFGIJKLMNSTUVXBC\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x94\x95";
    for operation in (0..=255u8).filter(|byte| !known.contains(byte)) {
        let payload = [b"((((]]]]".as_slice(), &[operation], &[0; 16]].concat();
        assert_eq!(pickled(&payload).refused, ["pickle_operation"], "{operation:#x}");
    }
}

#[test]
fn no_prefix_and_no_flipped_byte_makes_a_reader_panic() {
    let line = b"a.b;c=d 1.5 1615809600\nm{a=\"1\"} -1_0 -1\n".to_vec();
    let pickle =
        b"\0\0\0\x25\x80\x02]q\0(U\x05a.b.cq\x01J\x80OM`G?\xf8\0\0\0\0\0\0\x86\x86q\x02h\x02e.".to_vec();
    let protobuf = b"\0\0\0\x13\x0a\x11\x0a\x02ab\x12\x0b\x08\x05\x11\0\0\0\0\0\0\xf0\x3f".to_vec();
    for (protocol, bytes) in PROTOCOLS.into_iter().zip([line, pickle, protobuf]) {
        let mut whole = Counted::default();
        let _ = (protocol.read)(&bytes, 0, &mut whole);
        assert!(whole.points > 0, "{}: {:?}", protocol.name, whole.refused);
        for at in 0..bytes.len() {
            for read in [protocol.read, protocol.read_alone] {
                let _ = read(&bytes[..at], 0, &mut Counted::default());
                for flip in [0x01, 0x80, 0xFF] {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= flip;
                    let _ = read(&flipped, 0, &mut Counted::default());
                }
            }
        }
    }
}

#[test]
fn a_sink_can_stop_a_reader() {
    let mut counted = Counted { breaks_at: Some(2), ..Counted::default() };
    assert!((PLAINTEXT.read)(b"a 1 1\nb 1 1\nc 1 1\n", 0, &mut counted).is_break());
    assert_eq!(counted.points, 2);
}

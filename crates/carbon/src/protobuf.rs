//! Reads protobuf messages in go-carbon's form: `Payload{metrics=1: Metric{metric=1, points=2:
//! Point{timestamp=1: uint32, value=2: double}}}`.
//!
//! Points are passed on as they are read; those before an error in a message are kept.

use std::ops::ControlFlow;

use crate::point::{Sink, hand_on};
use crate::refusal::{Reason, Refusal};

/// The message ends within a field, or a number has too many bytes.
struct Malformed;

/// Why reading stopped.
enum Ended {
    Malformed,
    BySink,
}

impl From<Malformed> for Ended {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Reads one `Payload`.
pub(crate) fn read(payload: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    match metrics(payload, now, sink) {
        Ok(()) => ControlFlow::Continue(()),
        Err(Ended::BySink) => ControlFlow::Break(()),
        Err(Ended::Malformed) => {
            sink.refused(Refusal::of(Reason::ProtobufMalformed), payload);
            ControlFlow::Continue(())
        }
    }
}

fn metrics(mut payload: &[u8], now: i64, sink: &mut dyn Sink) -> Result<(), Ended> {
    while !payload.is_empty() {
        if let (1, Field::Bytes(message)) = field(&mut payload)? {
            metric(message, now, sink)?;
        }
    }
    Ok(())
}

fn metric(message: &[u8], now: i64, sink: &mut dyn Sink) -> Result<(), Ended> {
    let (mut rest, mut name) = (message, &b""[..]);
    while !rest.is_empty() {
        if let (1, Field::Bytes(bytes)) = field(&mut rest)? {
            name = bytes;
        }
    }
    let Ok(name) = std::str::from_utf8(name) else {
        sink.refused(Refusal::of(Reason::Utf8), message);
        return Ok(());
    };
    rest = message;
    while !rest.is_empty() {
        if let (2, Field::Bytes(bytes)) = field(&mut rest)? {
            let (seconds, value) = point(bytes)?;
            if hand_on(sink, (name, seconds, value), now, name.as_bytes()).is_break() {
                return Err(Ended::BySink);
            }
        }
    }
    Ok(())
}

fn point(mut message: &[u8]) -> Result<(f64, f64), Malformed> {
    let (mut seconds, mut value) = (0, 0.0);
    while !message.is_empty() {
        match field(&mut message)? {
            (1, Field::Number(number)) => seconds = number as u32,
            (2, Field::Fixed64(bits)) => value = f64::from_bits(bits),
            _ => {}
        }
    }
    Ok((seconds.into(), value))
}

fn field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Field<'a>), Malformed> {
    let tag = varint(bytes)?;
    let field = match tag & 7 {
        0 => Field::Number(varint(bytes)?),
        1 => Field::Fixed64(u64::from_le_bytes(array(bytes)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).map_err(|_| Malformed)?;
            Field::Bytes(bytes.split_off(..length).ok_or(Malformed)?)
        }
        5 => {
            array::<4>(bytes)?;
            Field::Other
        }
        _ => return Err(Malformed),
    };
    Ok((tag >> 3, field))
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (array, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    *bytes = rest;
    Ok(*array)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first().ok_or(Malformed)?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

//! Reads protobuf messages in go-carbon's form: `Payload{metrics=1: Metric{metric=1, points=2:
//! Point{timestamp=1: uint32, value=2: double}}}`.
//!
//! Points are passed on as they are read; those before an error in a message are kept.

use std::ops::ControlFlow;

use sandur_protobuf::{Malformed, Reader, Wire};

use crate::point::{Sink, hand_on};
use crate::refusal::{Reason, Refusal};

/// Why reading stopped.
enum Ended {
    Malformed,
    BySink,
}

impl From<Malformed> for Ended {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads one `Payload`.
pub(crate) fn read(payload: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    match metrics(Reader::new(payload), now, sink) {
        Ok(()) => ControlFlow::Continue(()),
        Err(Ended::BySink) => ControlFlow::Break(()),
        Err(Ended::Malformed) => {
            sink.refused(Refusal::of(Reason::ProtobufMalformed), payload);
            ControlFlow::Continue(())
        }
    }
}

fn metrics(mut payload: Reader<'_>, now: i64, sink: &mut dyn Sink) -> Result<(), Ended> {
    while let Some(key) = payload.key()? {
        match key {
            (1, Wire::Bytes) => metric(payload.message()?, now, sink)?,
            (_, wire) => payload.skip(wire)?,
        }
    }
    Ok(())
}

fn metric(mut message: Reader<'_>, now: i64, sink: &mut dyn Sink) -> Result<(), Ended> {
    let (mut fields, mut name) = (message, &b""[..]);
    while let Some(key) = fields.key()? {
        match key {
            (1, Wire::Bytes) => name = fields.bytes()?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    let Ok(name) = std::str::from_utf8(name) else {
        sink.refused(Refusal::of(Reason::Utf8), message.rest());
        return Ok(());
    };
    while let Some(key) = message.key()? {
        match key {
            (2, Wire::Bytes) => {
                let (seconds, value) = point(message.message()?)?;
                if hand_on(sink, (name, seconds, value), now, name.as_bytes()).is_break() {
                    return Err(Ended::BySink);
                }
            }
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(())
}

fn point(mut message: Reader<'_>) -> Result<(f64, f64), Malformed> {
    let (mut seconds, mut value) = (0, 0.0);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => seconds = message.varint()? as u32,
            (2, Wire::Fixed64) => value = message.double()?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((seconds.into(), value))
}

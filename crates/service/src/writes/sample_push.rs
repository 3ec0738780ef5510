//! A push of samples: how it is decoded, and its outcome.

use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{DecodedSamples, Memory, Refused, SamplePush, Written};

/// The outcome of a push.
#[derive(Default)]
pub struct Stored {
    /// Counts of what was stored.
    pub written: Written,
    /// What was refused, with reasons.
    pub refused: Refused,
}

/// The decoder of a protocol.
pub trait SampleDecoder:
    Fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
    + Clone
    + Send
    + 'static
{
}

impl<D> SampleDecoder for D where
    D: Fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
        + Clone
        + Send
        + 'static
{
}

//! A member's heartbeat: rewritten every few seconds with a growing counter.
//!
//! Observers compare the counter with the last one they saw and measure silence by their own clock; they
//! never use a time of the member.

use sandur_base::Id;

use super::frame::{self, Kind};
use super::log_chain::LogPosition;
use super::wire::{NAME_BYTES_MAX, bounded};
use crate::error::Error;

const KIND: Kind = Kind { magic: *b"SDCM", version: 2, metrics: 2, newest: 2, name: "member" };
/// The version since which heartbeats hold the position in the log that their author has read.
const SEEN_SINCE: u8 = 2;

/// The content of `members/<incarnation>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The process start that wrote it.
    pub incarnation: Id,
    /// Grows with every heartbeat.
    pub counter: u64,
    /// The address at which the process serves peers.
    pub address: String,
    /// Host name, for display.
    pub host: String,
    /// The position in the catalog's log that the process had read.
    pub seen: LogPosition,
}

impl Member {
    /// Returns the object's bytes.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        bounded(KIND.name, "the length of its address", self.address.len(), NAME_BYTES_MAX)?;
        bounded(KIND.name, "the length of its host name", self.host.len(), NAME_BYTES_MAX)?;
        let mut out = frame::begin(&KIND);
        out.id(self.incarnation);
        out.u64(self.counter);
        out.text(&self.address);
        out.text(&self.host);
        self.seen.encode(&mut out);
        Ok(frame::seal(&KIND, out))
    }

    /// Decodes a member object.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut from = frame::open(&KIND, bytes)?;
        let (incarnation, counter) = (from.id()?, from.u64()?);
        let address = from.text_within("address", NAME_BYTES_MAX)?.to_owned();
        let host = from.text_within("host name", NAME_BYTES_MAX)?.to_owned();
        let seen = match frame::version(bytes) >= SEEN_SINCE {
            true => LogPosition::decode(&mut from)?,
            false => LogPosition::default(),
        };
        from.finish()?;
        Ok(Self { incarnation, counter, address, host, seen })
    }
}

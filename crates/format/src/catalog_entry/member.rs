//! A member's heartbeat: rewritten every few seconds with a counter that grows.
//!
//! Observers compare counters with what they saw before and measure silence by their own clock;
//! no time of the member is ever compared.

use sandur_base::Id;

use super::entry::{NAME_BYTES_MAX, bounded};
use super::frame::{self, Kind};
use super::log_chain::LogPosition;
use crate::error::Error;

const KIND: Kind = Kind { magic: *b"SDCM", version: 2, newest: 2, name: "member" };
/// The version since which heartbeats say how far their author has read the log.
const SEEN_SINCE: u8 = 2;

/// What `members/<incarnation>` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The process start that it speaks for.
    pub incarnation: Id,
    /// Grows with every beat.
    pub counter: u64,
    /// Where the process answers peers.
    pub address: String,
    /// Host name, for people.
    pub host: String,
    /// How far the process had read the catalog's log.
    pub seen: LogPosition,
}

impl Member {
    /// The object's bytes.
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

    /// Reads a member object.
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

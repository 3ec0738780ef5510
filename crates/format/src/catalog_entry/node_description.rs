//! What a node states about itself in the catalog.

use sandur_model::Roles;

use super::wire::{Sink, bounded};
use crate::codec::Reader;
use crate::error::Error;

/// Longest id, zone or version in bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 128;

/// Whether a node stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodePhase {
    /// It does its work.
    #[default]
    Serving,
    /// Its process stops and may come back soon.
    Stopping,
    /// It leaves: others take over its work at once.
    Draining,
}

/// The identity and the abilities of the node that runs a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The stable id: it outlives restarts.
    pub id: String,
    /// The failure domain; empty if it is not configured.
    pub zone: String,
    /// The work that the node does.
    pub roles: Roles,
    /// Bytes of the node's cache.
    pub cache_bytes: u64,
    /// Whether the node stays.
    pub phase: NodePhase,
    /// The version of the program, for display.
    pub version: String,
}

impl NodePhase {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Stopping => "stopping",
            Self::Draining => "draining",
        }
    }
}

impl NodeDescription {
    pub(super) fn encode(&self, out: &mut Sink) -> Result<(), Error> {
        for (what, text) in [
            ("the length of a node's id", &self.id),
            ("the length of a zone", &self.zone),
            ("the length of a program's version", &self.version),
        ] {
            bounded("catalog", what, text.len(), NODE_TEXT_BYTES_MAX)?;
        }
        out.text(&self.id);
        out.text(&self.zone);
        out.varint(self.roles.bits().into());
        out.varint(self.cache_bytes);
        out.u8(match self.phase {
            NodePhase::Serving => 0,
            NodePhase::Stopping => 1,
            NodePhase::Draining => 2,
        });
        out.text(&self.version);
        Ok(())
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            id: from.text_within("the length of a node's id", NODE_TEXT_BYTES_MAX)?.to_owned(),
            zone: from.text_within("the length of a zone", NODE_TEXT_BYTES_MAX)?.to_owned(),
            roles: Roles::from_bits(from.varint32()?),
            cache_bytes: from.varint()?,
            phase: match from.u8()? {
                0 => NodePhase::Serving,
                1 => NodePhase::Stopping,
                2 => NodePhase::Draining,
                tag => return Err(from.unknown("phase of a node", tag)),
            },
            version: from.text_within("the length of a program's version", NODE_TEXT_BYTES_MAX)?.to_owned(),
        })
    }
}

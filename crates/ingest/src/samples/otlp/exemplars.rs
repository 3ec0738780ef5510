//! Decodes exemplars of points: `{time=2, as_double=3, span_id=4, trace_id=5, as_int=6,
//! filtered_attributes=7}`.
//!
//! An attribute is left out if the labels would have more than 128 characters with it.

use sandur_protobuf::{Reader, Wire};

use super::Export;
use super::export::Label;
use super::metric::time;
use crate::error::Error;

/// Most characters of the labels of an exemplar.
const CHARACTERS_MAX: usize = 128;

/// Bytes of memory of an exemplar in addition to its text.
const EXEMPLAR_BYTES: u64 = 256;

/// An exemplar of a point.
pub(super) struct PointExemplar {
    pub(super) value: f64,
    time_ms: i64,
    labels: Vec<Label>,
}

impl<'a> Export<'a> {
    /// Adds the exemplars in a field of a point to the open series.
    pub(super) fn exemplars(&mut self, point: Reader<'a>, field: u32) -> Result<(), Error> {
        for exemplar in self.read_exemplars(point, field)? {
            self.add_exemplar(&exemplar)?;
        }
        Ok(())
    }

    /// Reads the exemplars in a field of a point, in the order in which they were sent.
    pub(super) fn read_exemplars(
        &mut self,
        mut point: Reader<'a>,
        field: u32,
    ) -> Result<Vec<PointExemplar>, Error> {
        let mut exemplars = Vec::new();
        while let Some(key) = point.key()? {
            if key == (field, Wire::Bytes) {
                let message = point.message()?;
                self.builder.memory().take(message.rest().len() as u64 * 4 + EXEMPLAR_BYTES)?;
                exemplars.push(self.read_exemplar(message)?);
            } else {
                point.skip(key.1)?;
            }
        }
        Ok(exemplars)
    }

    fn read_exemplar(&mut self, message: Reader<'a>) -> Result<PointExemplar, Error> {
        let (mut value, mut time_ms) = (0.0, 0);
        let mut labels = Vec::new();
        let mut fields = message;
        while let Some(key) = fields.key()? {
            match key {
                (2, Wire::Fixed64) => time_ms = time(&mut fields)?,
                (3, Wire::Fixed64) => value = fields.double()?,
                (6, Wire::Fixed64) => value = fields.fixed64()? as i64 as f64,
                (4, Wire::Bytes) => labels.extend(id("span_id", fields.bytes()?)),
                (5, Wire::Bytes) => labels.extend(id("trace_id", fields.bytes()?)),
                (_, wire) => fields.skip(wire)?,
            }
        }
        let attributes = self.read_attributes(message, 7)?.pairs;
        let characters = |pairs: &[Label]| -> usize {
            pairs.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum()
        };
        if characters(&labels) + characters(&attributes) <= CHARACTERS_MAX {
            labels.extend(attributes);
        }
        Ok(PointExemplar { value, time_ms, labels })
    }

    /// Adds an exemplar to the open series.
    pub(super) fn add_exemplar(&mut self, exemplar: &PointExemplar) -> Result<(), Error> {
        let labels = exemplar.labels.iter();
        let pairs: Vec<_> = labels.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        self.builder.exemplar(&pairs, exemplar.value, exemplar.time_ms)
    }
}

/// Returns a trace or span id in hexadecimal; `None` when it is all zeros or too long for an id.
fn id(name: &str, bytes: &[u8]) -> Option<Label> {
    let is_id = bytes.len() <= 16 && bytes.iter().any(|byte| *byte != 0);
    is_id.then(|| (name.to_owned(), bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

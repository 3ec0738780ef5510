//! Encodes fields of the catalog's objects, and adds datasets to the [`Reader`] of all formats.

use sandur_base::Id;

use sandur_model::{Dataset, Signal, TenantId};

use crate::codec::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Prefix of the tenant's name in the text of a dataset of metrics; tenant names cannot contain a colon.
const METRICS: &str = "metrics:";

/// Appends fields to a buffer.
#[derive(Default)]
pub(super) struct Sink {
    pub bytes: Vec<u8>,
    /// Whether a dataset of metrics was appended, which older programs do not know.
    pub names_metrics: bool,
}

impl Sink {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn id(&mut self, value: Id) {
        self.bytes.extend_from_slice(&value.to_bytes());
    }

    pub fn varint(&mut self, value: u64) {
        put_varint(&mut self.bytes, value);
    }

    pub fn count(&mut self, value: usize) {
        self.varint(value as u64);
    }

    pub fn text(&mut self, value: &str) {
        self.count(value.len());
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Appends a dataset. For logs this is the tenant's name, as before metrics existed.
    pub fn dataset(&mut self, dataset: &Dataset) {
        match dataset.signal {
            Signal::Logs => self.text(dataset.tenant.as_str()),
            Signal::Metrics => {
                self.names_metrics = true;
                self.text(&format!("{METRICS}{}", dataset.tenant));
            }
        }
    }
}

impl Reader<'_> {
    /// Reads a dataset as written by [`Sink::dataset`].
    pub(super) fn dataset(&mut self) -> Result<Dataset, Error> {
        let text = self.text_within("the length of a tenant's name", usize::from(u8::MAX))?;
        let (signal, name) = match text.strip_prefix(METRICS) {
            Some(name) => (Signal::Metrics, name),
            None => (Signal::Logs, text),
        };
        let tenant = TenantId::new(name).map_err(|_| self.malformed("a tenant has no valid name"))?;
        Ok(Dataset { tenant, signal })
    }
}

/// Fails if a number exceeds its limit.
pub(super) fn bounded(
    part: &'static str,
    what: &'static str,
    found: usize,
    limit: usize,
) -> Result<(), Error> {
    if found > limit {
        return Err(Error::TooLarge { part, what, found: found as u64, limit: limit as u64 });
    }
    Ok(())
}

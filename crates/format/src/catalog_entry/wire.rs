//! Encodes fields of the catalog's objects, and adds datasets to the [`Reader`] of all formats.

use sandur_base::Id;

use sandur_model::{Dataset, Signal, TenantId};

use super::forms::{BlockForms, split_edits, with_edits};
use crate::codec::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Prefix of the tenant's name in the text of a dataset of metrics; tenant names cannot contain a colon.
const METRICS: &str = "metrics:";

/// Longest address or host name in bytes.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// Appends fields to a buffer.
#[derive(Default)]
pub(super) struct Sink {
    pub bytes: Vec<u8>,
    /// Whether a dataset of metrics was appended, which older programs do not know.
    pub names_metrics: bool,
    /// The earliest version that has all appended fields.
    pub least: u8,
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

    /// Appends the versions of blocks.
    pub fn forms(&mut self, forms: BlockForms) {
        self.varint(forms.logs.into());
        self.varint(forms.samples.into());
    }

    /// Appends a host name and the versions of edits and blocks that its process reads. Fails if the text
    /// would be too long to be read.
    pub fn host(&mut self, host: &str, edits: u16, reads: Option<BlockForms>) -> Result<(), Error> {
        let host = with_edits(host, edits);
        let text = reads.map_or_else(|| host.clone(), |reads| reads.at_end_of(&host));
        bounded("catalog", "the length of a host name", text.len(), NAME_BYTES_MAX)?;
        self.text(&text);
        Ok(())
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
    /// Reads the versions of blocks.
    pub(super) fn forms(&mut self) -> Result<BlockForms, Error> {
        let mut version = || {
            let version = self.varint()?;
            u16::try_from(version).map_err(|_| self.malformed("the version of a block has more than 16 bits"))
        };
        Ok(BlockForms { logs: version()?, samples: version()? })
    }

    /// Reads a host name and the versions of edits and blocks that its process reads.
    pub(super) fn host(&mut self) -> Result<(String, u16, Option<BlockForms>), Error> {
        let (text, reads) = BlockForms::split(self.text_within("host name", NAME_BYTES_MAX)?);
        let (host, edits) = split_edits(text);
        Ok((host.to_owned(), edits, reads))
    }

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

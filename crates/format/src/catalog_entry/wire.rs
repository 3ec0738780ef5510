//! The primitive fields: little-endian fixed integers, LEB128 varints, length-prefixed texts.
//!
//! Reading never trusts a length: a count is checked against the bytes that remain before
//! anything is allocated for it.

use sandur_base::Id;

use sandur_model::{Dataset, Signal, TenantId};

use super::error::FormatError;

/// Before the tenant's name, in the text of a dataset of metrics: no name has a colon.
const METRICS: &str = "metrics:";

/// Appends fields to a buffer.
#[derive(Default)]
pub(super) struct Sink {
    pub bytes: Vec<u8>,
    /// Whether a dataset of metrics was among them, which older programs do not know.
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

    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub fn count(&mut self, value: usize) {
        self.varint(value as u64);
    }

    pub fn text(&mut self, value: &str) {
        self.count(value.len());
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// The tenant's name for logs, as before there were metrics.
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

/// Takes fields from the front of a slice.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], FormatError> {
        let rest = &self.bytes[self.at..];
        if length > rest.len() {
            return Err(FormatError::Truncated { what, at: self.bytes.len() });
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        let slice = self.take(N, what)?;
        Ok(slice.try_into().expect("take returns exactly the length asked for"))
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, FormatError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn i64(&mut self, what: &'static str) -> Result<i64, FormatError> {
        Ok(i64::from_le_bytes(self.array(what)?))
    }

    pub fn id(&mut self, what: &'static str) -> Result<Id, FormatError> {
        Ok(Id::from_bytes(self.array(what)?))
    }

    pub fn varint(&mut self, what: &'static str) -> Result<u64, FormatError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte holds the one bit that is left.
            if shift == 63 && bits > 1 {
                return Err(FormatError::Range { what, value: u64::MAX });
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(FormatError::Range { what, value: u64::MAX })
    }

    pub fn varint_u32(&mut self, what: &'static str) -> Result<u32, FormatError> {
        let value = self.varint(what)?;
        u32::try_from(value).map_err(|_| FormatError::Range { what, value })
    }

    /// A number of things of at least `size_min` bytes each that follow: never more than fit.
    pub fn count(&mut self, size_min: usize, what: &'static str) -> Result<usize, FormatError> {
        let value = self.varint(what)?;
        let fits = ((self.bytes.len() - self.at) / size_min.max(1)) as u64;
        if value > fits {
            return Err(FormatError::Truncated { what, at: self.bytes.len() });
        }
        Ok(value as usize)
    }

    pub fn text(&mut self, length_max: usize, what: &'static str) -> Result<&'a str, FormatError> {
        let length = self.count(1, what)?;
        if length > length_max {
            return Err(FormatError::Text { what });
        }
        std::str::from_utf8(self.take(length, what)?).map_err(|_| FormatError::Text { what })
    }

    pub fn dataset(&mut self) -> Result<Dataset, FormatError> {
        let text = self.text(u8::MAX as usize, "tenant")?;
        let (signal, name) = match text.strip_prefix(METRICS) {
            Some(name) => (Signal::Metrics, name),
            None => (Signal::Logs, text),
        };
        let tenant = TenantId::new(name).map_err(|_| FormatError::Text { what: "tenant" })?;
        Ok(Dataset { tenant, signal })
    }

    /// Fails unless everything was read.
    pub fn finish(self, what: &'static str) -> Result<(), FormatError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            count => Err(FormatError::Trailing { what, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_overlong_ones_are_refused() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut writer = Sink::default();
            writer.varint(value);
            assert_eq!(Reader::new(&writer.bytes).varint("v").unwrap(), value);
        }
        assert!(Reader::new(&[0xff; 11]).varint("v").is_err());
        let mut ten = [0x80; 10];
        ten[9] = 2;
        assert!(Reader::new(&ten).varint("v").is_err());
    }

    #[test]
    fn a_count_never_exceeds_what_the_bytes_can_hold() {
        let mut writer = Sink::default();
        writer.varint(1 << 40);
        writer.u64(0);
        assert!(matches!(Reader::new(&writer.bytes).count(1, "n"), Err(FormatError::Truncated { .. })));
    }
}

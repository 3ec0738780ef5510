//! The beginning of a record: the form of its arena, and the numbers of its elements.

use crate::codec::Reader;
use crate::error::Error;
use crate::wal_segment::limits::ARENA_BYTES_MAX;

/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 8;

/// Most samples, series, exemplars or metadata of a batch: a value takes eight bytes of an arena.
const COUNT_MAX: usize = ARENA_BYTES_MAX / VALUE_BYTES;

/// Most bytes of the labels of all series of a batch; text that series share counts for each of them.
pub(super) const LABEL_BYTES_MAX: usize = ARENA_BYTES_MAX;

/// The kind of a record's arena, which determines how labels and values are found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// Built for the record: texts of labels, then values.
    Own = 0,
    /// A body with the label messages of remote write 1.0.
    Messages = 1,
    /// A body with the symbols and references of remote write 2.0.
    References = 2,
    /// Names in Graphite's notation, each followed by a value.
    Names = 3,
}

/// The numbers of elements in a record.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) series: usize,
    pub(super) labels: usize,
    pub(super) symbols: usize,
    pub(super) floats: usize,
    pub(super) histograms: usize,
    pub(super) exemplars: usize,
    pub(super) metadata: usize,
}

impl Form {
    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, Error> {
        match reader.u8()? {
            0 => Ok(Self::Own),
            1 => Ok(Self::Messages),
            2 => Ok(Self::References),
            3 => Ok(Self::Names),
            _ => Err(reader.malformed("the form of a batch of samples is unknown: a newer program wrote it")),
        }
    }
}

impl Counts {
    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            series: reader.count("series of a batch", COUNT_MAX)?,
            labels: reader.count("labels of a batch", COUNT_MAX)?,
            symbols: reader.count("symbols of a batch", COUNT_MAX)?,
            floats: reader.count("samples of a batch", COUNT_MAX)?,
            histograms: reader.count("histograms of a batch", COUNT_MAX)?,
            exemplars: reader.count("exemplars of a batch", COUNT_MAX)?,
            metadata: reader.count("metadata of a batch", COUNT_MAX)?,
        })
    }
}

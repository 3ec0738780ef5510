//! The footer of a block of unknown signal, for tools that read any block in a store.

use std::ops::Range;

use bytes::Bytes;

use crate::block::{BlockIndex, PART_FOOTER};
use crate::error::Error;
use crate::{log_block, sample_block};

/// The footer of a block of either signal, which the last bytes of the object determine.
#[derive(Debug)]
pub enum BlockFooter {
    /// A block of logs.
    Logs(Box<log_block::Footer>),
    /// A block of samples.
    Metrics(Box<sample_block::Footer>),
}

impl BlockFooter {
    /// Returns the range of the footer with its trailer in an object of `size` bytes, from the object's
    /// last bytes: at least [`TRAILER_LEN`](crate::block::TRAILER_LEN) of them.
    pub fn locate(tail: &[u8], size: u64) -> Result<Range<u64>, Error> {
        match log_block::Footer::locate(tail, size) {
            Err(Error::Magic { .. }) => {
                sample_block::Footer::locate(tail, size).map_err(|error| unknown(error, size))
            }
            located => located,
        }
    }

    /// Decodes a footer from its bytes, including the trailer: the object from its footer offset to its
    /// end.
    pub fn open(bytes: Bytes) -> Result<Self, Error> {
        let size = bytes.len() as u64;
        match log_block::Footer::open(bytes.clone()) {
            Err(Error::Magic { .. }) => {
                let footer = sample_block::Footer::open(bytes).map_err(|error| unknown(error, size))?;
                Ok(Self::Metrics(Box::new(footer)))
            }
            footer => Ok(Self::Logs(Box::new(footer?))),
        }
    }

    /// Returns the common part of the footers of both signals.
    pub fn index(&self) -> &dyn BlockIndex {
        match self {
            Self::Logs(footer) => &**footer,
            Self::Metrics(footer) => &**footer,
        }
    }
}

/// Replaces an error about one signal's magic, because the bytes match the magic of no signal.
fn unknown(error: Error, size: u64) -> Error {
    match error {
        Error::Magic { found, .. } => {
            Error::UnknownMagic { part: PART_FOOTER, offset: size.saturating_sub(4), found }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::Signal;

    use super::*;

    const LOGS: &[u8] = include_bytes!("../fixtures/log-block-v4.bin");
    const SAMPLES: &[u8] = include_bytes!("../fixtures/sample-block-v5.bin");

    #[test]
    fn the_last_bytes_determine_the_signal() {
        for (bytes, signal) in [(LOGS, Signal::Logs), (SAMPLES, Signal::Metrics)] {
            let range = BlockFooter::locate(bytes, bytes.len() as u64).unwrap();
            let mut footer = bytes[range.start as usize..].to_vec();
            let opened = BlockFooter::open(Bytes::from(footer.clone())).unwrap();
            assert_eq!((opened.index().signal(), opened.index().offset()), (signal, range.start));
            opened.index().check_header(bytes).unwrap();
            *footer.last_mut().unwrap() ^= 0x80;
            let found = BlockFooter::locate(&footer, bytes.len() as u64).unwrap_err();
            assert!(matches!(found, Error::UnknownMagic { .. }), "{found}");
            let found = BlockFooter::open(Bytes::from(footer)).unwrap_err();
            assert!(matches!(found, Error::UnknownMagic { .. }), "{found}");
        }
        let damaged = BlockFooter::open(Bytes::from_static(b"short")).unwrap_err();
        assert!(matches!(damaged, Error::Truncated { .. }), "{damaged}");
    }
}

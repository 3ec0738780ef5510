//! The binary trace format `oracleGeneral` of libCacheSim: records of 24 bytes, little-endian.
//!
//! | offset | field |
//! |---|---|
//! | 0 | u32 time in seconds |
//! | 4 | u64 id of the object |
//! | 12 | u32 size in bytes |
//! | 16 | i64 position of the next access to the object, -1 for none: for optimal policies, unused here |

use std::io::{BufRead, ErrorKind};

use super::error::{RECORD_BYTES, TraceError};
use crate::draws::mix;
use sandur_cache::Hint;
use sandur_cache::model::{Kind, Request};

/// Reads a trace record by record. Accesses of size 0 are skipped, as in libCacheSim.
#[derive(Debug)]
pub struct OracleGeneral<R> {
    input: R,
    records: u64,
}

impl<R: BufRead> OracleGeneral<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self { input, records: 0 }
    }

    fn record(&mut self) -> Result<Option<[u8; RECORD_BYTES]>, TraceError> {
        let mut record = [0; RECORD_BYTES];
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        match self.input.read_exact(&mut record) {
            Ok(()) => Ok(Some(record)),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                Err(TraceError::CutOff { record: self.records })
            }
            Err(e) => Err(e.into()),
        }
    }
}

impl<R: BufRead> Iterator for OracleGeneral<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = match self.record() {
                Ok(record) => record?,
                Err(error) => return Some(Err(error)),
            };
            self.records += 1;
            let number = |from: usize, to: usize| {
                record[from..to].iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte))
            };
            let bytes = number(12, 16) as u32;
            if bytes > 0 {
                let (at_s, hash) = (number(0, 4) as u32, mix(number(4, 12)));
                let (kind, hint) = (Kind::Read, Hint::Point);
                return Some(Ok(Request { at_s, hash, bytes, kind, hint, tenant: 0 }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, id: u64, size: u32) -> Vec<u8> {
        let next = (-1i64).to_le_bytes();
        [&time.to_le_bytes()[..], &id.to_le_bytes()[..], &size.to_le_bytes()[..], &next[..]].concat()
    }

    #[test]
    fn records_are_read_and_a_truncated_one_is_named() {
        let mut bytes = [record(1, 5, 100), record(2, 6, 0), record(3, 5, 100)].concat();
        let read = |bytes: &[u8]| OracleGeneral::new(bytes).collect::<Result<Vec<_>, _>>();
        let requests = read(&bytes).unwrap();
        assert_eq!(requests.iter().map(|r| (r.at_s, r.bytes)).collect::<Vec<_>>(), [(1, 100), (3, 100)]);
        assert_eq!(requests[0].hash, requests[1].hash);
        bytes.pop();
        assert!(read(&bytes).unwrap_err().to_string().contains("record 2"));
    }
}

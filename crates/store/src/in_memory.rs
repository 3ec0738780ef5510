//! Reads of local files that the kernel has in memory, where they are asked for: a thread that may wait costs
//! several times as much as such a read, and a query that is new asks for several after each other.
//!
//! **Invariants.** Nothing here waits for a disk or a network: neither the name is looked up beyond what the
//! kernel knows of it, nor a page read that it does not hold. Whatever is not there at once, and whatever
//! fails, is left to [`Directory::read`](crate::directory::Directory::read), which says what is wrong.

use std::io::IoSliceMut;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

/// Most bytes that an I/O thread copies: 20 microseconds.
const BYTES_MAX: u64 = 128 << 10;
/// Most ranges, of which each takes a call.
const RANGES_MAX: usize = 16;

/// Ranges of a file, if they are few, short and in memory.
pub(crate) fn read(file: &Path, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
    let length = |range: &Range<u64>| range.end.checked_sub(range.start);
    let bytes = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(length(range)?))?;
    if bytes > BYTES_MAX || ranges.len() > RANGES_MAX {
        return None;
    }
    // Of a named pipe nothing is read: it has no places.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = openat2(CWD, file, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
    let body = |range: &Range<u64>| {
        let mut body = vec![0; length(range)? as usize];
        let into = &mut [IoSliceMut::new(&mut body)];
        let found = preadv2(&opened, into, range.start, ReadWriteFlags::NOWAIT).ok()?;
        (found == body.len()).then(|| Bytes::from(body))
    };
    ranges.iter().map(body).collect()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use crate::directory::Directory;

    #[test]
    fn what_is_read_at_once_is_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let content: Vec<u8> = (0..300_000u32).map(|n| (n / 3) as u8).collect();
        std::fs::write(&file, &content).unwrap();
        for ranges in [vec![0..10, 5..5, 299_990..300_000], vec![0..BYTES_MAX], vec![]] {
            let read = Directory::read(&file, Some(&ranges)).unwrap();
            // Not every file system says what it has in memory.
            assert!(super::read(&file, &ranges).is_none_or(|at_once| at_once == read), "{ranges:?}");
        }
    }

    #[test]
    fn what_fails_or_is_long_is_left_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, vec![1; 400_000]).unwrap();
        assert!(read(&file, &[0..BYTES_MAX + 1]).is_none(), "more than an I/O thread copies");
        assert!(read(&file, &[0..BYTES_MAX, 0..1]).is_none(), "the same of several ranges");
        assert!(read(&file, &vec![0..1; RANGES_MAX + 1]).is_none());
        assert!(read(&file, &[399_999..400_001]).is_none(), "beyond the end");
        assert!(read(&file, &[u64::MAX - 1..u64::MAX]).is_none(), "beyond all files");
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = 5..4;
        assert!(read(&file, &[backwards]).is_none());
        assert!(read(&dir.path().join("g"), &[0..1]).is_none(), "no such file");
        assert!(read(dir.path(), &[0..1]).is_none(), "a directory");
        let pipe = dir.path().join("p");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(read(&pipe, &[0..1]).is_none(), "a pipe");
    }
}

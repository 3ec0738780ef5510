//! Reads local files in the calling thread if the kernel has them in memory: handing a read to a
//! blocking thread costs several times as much, and a new query makes several such reads in sequence.
//!
//! **Invariants.** Nothing here waits for a disk or a network: path lookup uses only what the kernel has
//! cached, and pages that are not in memory are not read. Every other case, including errors, is left to
//! [`Directory::read`](crate::directory::Directory::read), which reports the error.

use std::io::IoSliceMut;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

/// The most bytes that an I/O thread copies: 20 microseconds.
const BYTES_MAX: u64 = 128 << 10;
/// The most ranges; each needs a system call.
const RANGES_MAX: usize = 16;

/// Reads ranges of a file; `None` unless they are few, short and in memory.
pub(crate) fn read(file: &Path, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
    let length = |range: &Range<u64>| range.end.checked_sub(range.start);
    let bytes = ranges.iter().try_fold(0u64, |sum, range| sum.checked_add(length(range)?))?;
    if bytes > BYTES_MAX || ranges.len() > RANGES_MAX {
        return None;
    }
    // Reads of a named pipe fail below, because it has no offsets.
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
    fn cached_reads_return_the_contents_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let content: Vec<u8> = (0..300_000u32).map(|n| (n / 3) as u8).collect();
        std::fs::write(&file, &content).unwrap();
        for ranges in [vec![0..10, 5..5, 299_990..300_000], vec![0..BYTES_MAX], vec![]] {
            let read = Directory::read(&file, Some(&ranges)).unwrap();
            // Not every file system reports which pages are in memory.
            assert!(super::read(&file, &ranges).is_none_or(|at_once| at_once == read), "{ranges:?}");
        }
    }

    #[test]
    fn errors_and_long_reads_are_left_to_the_blocking_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, vec![1; 400_000]).unwrap();
        assert!(read(&file, &[0..BYTES_MAX + 1]).is_none(), "more than an I/O thread copies");
        assert!(read(&file, &[0..BYTES_MAX, 0..1]).is_none(), "the sum of several ranges is too large");
        assert!(read(&file, &vec![0..1; RANGES_MAX + 1]).is_none());
        assert!(read(&file, &[399_999..400_001]).is_none(), "beyond the end");
        assert!(read(&file, &[u64::MAX - 1..u64::MAX]).is_none(), "beyond the largest offset");
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

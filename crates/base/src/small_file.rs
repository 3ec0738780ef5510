//! Files that people and programs write for us and that are read as a whole: configuration, rules, lists,
//! secrets, states.
//!
//! **Invariant.** No more than the caller's bound is read, whatever the path is by now: a device that never
//! ends has no size, and a file may grow while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::units::ByteSize;

/// The bytes of a file that has at most so many.
pub fn read(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("it has more than {}, which is the most that is read", ByteSize(bytes_max));
        return Err(io::Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// The text of a file that has at most so many bytes.
pub fn read_text(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, bytes_max)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_or_never_ends_is_refused_with_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(read_text(&path, 8).unwrap(), "12345678");
        for (path, bytes_max) in [(path.as_path(), 7), (Path::new("/dev/zero"), 1 << 20)] {
            let error = read(path, bytes_max).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
            assert!(error.to_string().contains(&ByteSize(bytes_max).to_string()), "{error}");
        }
        std::fs::write(&path, b"\xFF").unwrap();
        assert_eq!(read_text(&path, 8).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(folder.path().join("absent"), 8).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

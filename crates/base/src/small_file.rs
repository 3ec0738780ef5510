//! Reads small files completely: configuration, rules, lists, secrets, state.
//!
//! **Invariant.** Never reads more than the caller's bound plus one byte, whatever the path refers to: a
//! device may be endless, and a file may grow while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::units::ByteSize;

/// The contents of a file of at most `bytes_max` bytes.
pub fn read(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("it is larger than {}, the limit for such a file", ByteSize(bytes_max));
        return Err(io::Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// The text of a file of at most `bytes_max` bytes.
pub fn read_text(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, bytes_max)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_above_the_limit_and_endless_devices_are_refused() {
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

//! The file of a secret that several processes share: one line, or two while the secret is being replaced.
//!
//! **Invariant.** No error and no debugging output contains a secret.

use std::fmt;
use std::path::Path;

use crate::small_file;

/// Minimum number of bytes of a secret: as many as the keys that are derived from it.
const SECRET_BYTES_MIN: usize = 32;
/// Maximum number of secrets: the one in use, and another one during a replacement.
const SECRETS_MAX: usize = 2;
/// Maximum size of the file.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// One or two secrets. The first one is used, each of them is accepted.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretLines(Vec<Vec<u8>>);

/// Why a file has no valid secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    /// It has no lines.
    #[error("the file is empty: write the output of `openssl rand -hex 32` into it")]
    Empty,
    /// A line is too short.
    #[error(
        "line {line} has {bytes} bytes, and at least {SECRET_BYTES_MIN} are needed: `openssl rand -hex 32` \
         makes a secret"
    )]
    Short {
        /// The number of the line among those that are not empty, from 1.
        line: usize,
        /// Its length.
        bytes: usize,
    },
    /// There are too many lines.
    #[error(
        "the file has {0} lines, and at most {SECRETS_MAX} are allowed: the secret in use, and another one \
         while it is being replaced"
    )]
    Many(usize),
}

impl SecretLines {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BadSecret> {
        let bytes = small_file::read(path, FILE_BYTES_MAX);
        Self::parse(&bytes.map_err(|error| BadSecret::Unreadable(error.to_string()))?)
    }

    /// Parses the contents of a file. Empty lines do not count.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadSecret> {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines: Vec<Vec<u8>> = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        match lines.len() {
            0 => return Err(BadSecret::Empty),
            many if many > SECRETS_MAX => return Err(BadSecret::Many(many)),
            _ => {}
        }
        match lines.iter().position(|line| line.len() < SECRET_BYTES_MIN) {
            Some(at) => Err(BadSecret::Short { line: at + 1, bytes: lines[at].len() }),
            None => Ok(Self(lines)),
        }
    }

    /// The secrets, of which there is at least one.
    pub fn secrets(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl fmt::Debug for SecretLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretLines({} secrets)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_or_two_secrets_of_32_bytes() {
        let long = "0123456789abcdef0123456789abcdef";
        let lines = |text: &str| SecretLines::parse(text.as_bytes()).map(|lines| lines.secrets().len());
        assert_eq!(lines(&format!("{long}\n")), Ok(1));
        assert_eq!(lines(&format!("\n {long}\r\n\nx{long}\n")), Ok(2));
        assert_eq!(lines("\n \n"), Err(BadSecret::Empty));
        assert_eq!(lines("short"), Err(BadSecret::Short { line: 1, bytes: 5 }));
        assert_eq!(lines(&format!("{long}\n{long}\n{long}")), Err(BadSecret::Many(3)));
        let error = lines(&format!("{long}\nonly-this-secret")).unwrap_err().to_string();
        assert!(error.contains("line 2 has 16 bytes") && !error.contains("only-this"), "{error}");
        assert!(!format!("{:?}", SecretLines::parse(long.as_bytes())).contains("0123"));
    }

    #[test]
    fn a_file_that_is_too_large_or_absent_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(matches!(SecretLines::read(&path), Err(BadSecret::Unreadable(_))));
        std::fs::write(&path, vec![b'a'; 20 << 10]).unwrap();
        assert!(matches!(SecretLines::read(&path), Err(BadSecret::Unreadable(_))));
        std::fs::write(&path, vec![b'a'; 32]).unwrap();
        assert!(SecretLines::read(&path).is_ok());
    }
}

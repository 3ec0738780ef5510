//! The secret that all processes of a cluster share.
//!
//! A file has one line, or two while the secret is being replaced. A process proves itself with the first
//! secret and accepts both, so a cluster changes its secret by two rolling restarts: first with
//! the new secret in the second line everywhere, then with the lines exchanged.
//!
//! **Invariant.** A secret is never shown: not in an error, not by `Debug`. What stands on the wire is
//! derived from it in one direction.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ring::hkdf;
use sandur_base::small_file;

/// Minimum number of bytes of a secret: as many as the keys that are derived from it.
const BYTES_MIN: usize = 32;
/// Maximum number of secrets in a file.
const SECRETS_MAX: usize = 2;
/// Maximum size of the file.
const FILE_BYTES_MAX: u64 = 4_096;
/// Separates these keys from keys that are derived from the same secret for another purpose.
const PURPOSE: &[u8] = b"sandur peer calls 1";

/// The keys of a cluster. Cheap to clone: clones are replaced together.
#[derive(Clone)]
pub struct ClusterSecret(Arc<RwLock<Vec<Key>>>);

/// A key that is derived from a secret.
#[derive(Clone)]
pub(crate) struct Key {
    /// Says which key a peer uses. It reveals nothing about the key except whether two are equal.
    pub(crate) id: [u8; 8],
    pub(crate) key: [u8; 32],
}

/// The file has no valid secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// It cannot be read.
    #[error("the file of the cluster's secret cannot be read: {0}")]
    Unreadable(String),
    /// It is empty.
    #[error("the file of the cluster's secret is empty: write the output of `openssl rand -hex 32` into it")]
    Empty,
    /// A line is too short.
    #[error(
        "line {line} of the cluster's secret has {bytes} bytes, and at least {BYTES_MIN} are needed: \
         `openssl rand -hex 32` makes one"
    )]
    Short {
        /// Its number, from 1.
        line: usize,
        /// Its length.
        bytes: usize,
    },
    /// There are too many lines.
    #[error(
        "the file of the cluster's secret has {0} lines, and at most {SECRETS_MAX} are allowed: the one in \
         use, and another one while it is being replaced"
    )]
    Many(usize),
}

impl ClusterSecret {
    /// Reads the file.
    pub fn read(path: &std::path::Path) -> Result<Self, BadSecret> {
        let text =
            small_file::read_text(path, FILE_BYTES_MAX).map_err(|e| BadSecret::Unreadable(e.to_string()))?;
        Self::parse(&text)
    }

    /// Parses the contents of the file.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(BadSecret::Empty);
        }
        if lines.len() > SECRETS_MAX {
            return Err(BadSecret::Many(lines.len()));
        }
        let short = lines.iter().position(|line| line.len() < BYTES_MIN);
        if let Some(at) = short {
            return Err(BadSecret::Short { line: at + 1, bytes: lines[at].len() });
        }
        Ok(Self(Arc::new(RwLock::new(lines.iter().map(|line| Key::of(line.as_bytes())).collect()))))
    }

    /// Uses the keys of another secret from now on, for new connections.
    pub fn replace(&self, other: Self) {
        let keys = other.keys().clone();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The key that this process proves itself with.
    pub(crate) fn own(&self) -> Key {
        self.keys()[0].clone()
    }

    /// The key with this id, if this process accepts it.
    pub(crate) fn with_id(&self, id: &[u8]) -> Option<Key> {
        self.keys().iter().find(|key| key.id == *id).cloned()
    }

    fn keys(&self) -> RwLockReadGuard<'_, Vec<Key>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterSecret({} keys)", self.keys().len())
    }
}

impl Key {
    fn of(secret: &[u8]) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, PURPOSE).extract(secret);
        let (mut id, mut key) = ([0; 8], [0; 32]);
        expand(&derived, b"id", &mut id);
        expand(&derived, b"key", &mut key);
        Self { id, key }
    }
}

/// The length of derived bytes.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Fills `out`, which has at most 255 * 32 bytes, from a derived key.
pub(crate) fn expand(from: &hkdf::Prk, purpose: &[u8], out: &mut [u8]) {
    let purpose = [purpose];
    // Neither call fails for outputs of this length.
    if let Ok(derived) = from.expand(&purpose, Length(out.len())) {
        let _ = derived.fill(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_or_two_secrets_of_32_bytes() {
        let (first, second) = ("a".repeat(32), "b".repeat(64));
        let both = ClusterSecret::parse(&format!("{first}\n\n  {second}\n")).unwrap();
        let one = ClusterSecret::parse(&second).unwrap();
        assert_ne!(both.own().key, one.own().key);
        assert_eq!(both.with_id(&one.own().id).unwrap().key, one.own().key);
        assert!(one.with_id(&both.own().id).is_none());
        assert_ne!(both.own().key, [0; 32]);
        assert_eq!(ClusterSecret::parse("\n \n").unwrap_err(), BadSecret::Empty);
        assert_eq!(ClusterSecret::parse("short").unwrap_err(), BadSecret::Short { line: 1, bytes: 5 });
        let three = format!("{first}\n{second}\n{first}");
        assert_eq!(ClusterSecret::parse(&three).unwrap_err(), BadSecret::Many(3));
        assert!(!format!("{both:?}").contains("aaa"));
        both.clone().replace(one.clone());
        assert_eq!(both.own().key, one.own().key, "clones are replaced together");
    }
}

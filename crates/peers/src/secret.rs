//! The secret that all processes of a cluster share.
//!
//! A file has one secret, or two while it is being replaced ([`SecretLines`]). A process proves itself with
//! the first secret and accepts both, so a cluster changes its secret by two rolling restarts: first with
//! the new secret in the second line everywhere, then with the lines exchanged.
//!
//! **Invariant.** A secret is never shown: not in an error, not by `Debug`. What stands on the wire is
//! derived from it in one direction.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ring::hkdf;
use sandur_base::{BadSecret, SecretLines};

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

impl ClusterSecret {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, BadSecret> {
        SecretLines::read(path).map(|lines| Self::of(&lines))
    }

    /// The keys of these secrets.
    pub fn of(lines: &SecretLines) -> Self {
        Self(Arc::new(RwLock::new(lines.secrets().map(Key::of).collect())))
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

    fn of(text: &str) -> ClusterSecret {
        ClusterSecret::of(&SecretLines::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn each_line_has_a_key_and_clones_are_replaced_together() {
        let (first, second) = ("a".repeat(32), "b".repeat(64));
        let (both, one) = (of(&format!("{first}\n\n  {second}\n")), of(&second));
        assert_ne!(both.own().key, one.own().key);
        assert_eq!(both.with_id(&one.own().id).unwrap().key, one.own().key);
        assert!(one.with_id(&both.own().id).is_none());
        assert_ne!(both.own().key, [0; 32]);
        assert!(!format!("{both:?}").contains("aaa"));
        both.clone().replace(one.clone());
        assert_eq!(both.own().key, one.own().key, "clones are replaced together");
    }
}

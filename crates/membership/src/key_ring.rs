//! The keys of sealed datagrams, derived from the secret of the cluster.
//!
//! A secret is the content of a line of a file. HKDF-SHA-256 derives from it one key of AES-256-GCM per
//! cluster name and sender. A key of its own for each process start keeps the number of random nonces
//! under one key far below 2^32, the bound for AES-GCM. The first secret seals; each of them opens.

use std::path::Path;

use ring::{aead, hkdf};
use sandur_base::{BadSecret, Id, SecretLines};

use crate::error::Error;

/// Separates these keys from any other use of the same secret.
const SALT: &[u8] = b"sandur gossip 1";

/// One or two secrets of a cluster.
#[derive(Clone)]
pub struct KeyRing {
    secrets: Vec<hkdf::Prk>,
    /// The cluster's name and its length, so that no two names give the same bytes.
    cluster: Vec<u8>,
    /// A fingerprint of the secrets, to notice a change of the file.
    fingerprint: [u8; 32],
}

impl KeyRing {
    /// Reads the secrets of a file.
    pub fn read(path: &Path, cluster: &str) -> Result<Self, Error> {
        let failed = |reason| Error::Secret { path: path.display().to_string(), reason };
        Ok(Self::of_lines(&SecretLines::read(path).map_err(failed)?, cluster))
    }

    /// The secrets of the lines of a file.
    pub fn from_lines(bytes: &[u8], cluster: &str) -> Result<Self, BadSecret> {
        SecretLines::parse(bytes).map(|lines| Self::of_lines(&lines, cluster))
    }

    fn of_lines(lines: &SecretLines, cluster: &str) -> Self {
        Self::of(&lines.secrets().collect::<Vec<_>>(), cluster)
    }

    /// Keys for gossip without a secret, which is limited to loopback: every process of the machine can
    /// derive them.
    pub fn without_secret(cluster: &str) -> Self {
        Self::of(&[b"gossip on loopback without a secret"], cluster)
    }

    fn of(secrets: &[&[u8]], cluster: &str) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT);
        let mut named = (cluster.len() as u64).to_le_bytes().to_vec();
        named.extend_from_slice(cluster.as_bytes());
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        for secret in secrets {
            digest.update(&(secret.len() as u64).to_le_bytes());
            digest.update(secret);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest.finish().as_ref());
        let secrets = secrets.iter().map(|secret| salt.extract(secret)).collect();
        Self { secrets, cluster: named, fingerprint }
    }

    /// Whether both hold the same secrets.
    pub fn is_same(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// The key with which `sender` seals.
    pub(crate) fn sealing(&self, sender: Id) -> aead::LessSafeKey {
        self.key(&self.secrets[0], sender)
    }

    /// The keys with which `sender` may have sealed.
    pub(crate) fn opening(&self, sender: Id) -> impl Iterator<Item = aead::LessSafeKey> + '_ {
        self.secrets.iter().map(move |secret| self.key(secret, sender))
    }

    fn key(&self, secret: &hkdf::Prk, sender: Id) -> aead::LessSafeKey {
        let sender = sender.to_bytes();
        let info: [&[u8]; 2] = [&self.cluster, &sender];
        let key = secret.expand(&info, &aead::AES_256_GCM).expect("a key is shorter than HKDF's limit");
        aead::LessSafeKey::new(aead::UnboundKey::from(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_or_absent_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(KeyRing::read(&path, "c").err().unwrap().to_string().contains("secret"));
        std::fs::write(&path, vec![b'a'; 20 << 10]).unwrap();
        assert!(KeyRing::read(&path, "c").is_err());
        std::fs::write(&path, vec![b'a'; 32]).unwrap();
        let (ring, again) = (KeyRing::read(&path, "c").unwrap(), KeyRing::read(&path, "c").unwrap());
        assert!(ring.is_same(&again));
        std::fs::write(&path, vec![b'b'; 32]).unwrap();
        assert!(!KeyRing::read(&path, "c").unwrap().is_same(&ring));
    }
}

//! Opens a connection: both sides prove that they have the cluster's secret, and agree on keys of their own.
//!
//! Each side sends a fresh public key of X25519, authenticated with the secret. The keys of the connection
//! are derived from the secret, both public keys and their agreement. So a recording of a connection cannot
//! be replayed, because the other side's public key differs, and cannot be read later by someone who learns
//! the secret. (In the terms of the Noise framework this is the pattern NN with a pre-shared key.)
//!
//! | side | bytes |
//! |---|---|
//! | caller | magic `SPER`, version u8, three zero bytes, id of its key (8), public key (32), tag (16) |
//! | server | public key (32), tag (16) |
//!
//! A tag is the first half of the HMAC-SHA-256, under the secret's key, of everything sent so far.
//! **Invariant.** The server sends nothing before it has verified the caller's tag, and forgets a stranger
//! without a word.

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::{aead, digest, hkdf, hmac};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::failure::CallError;
use crate::sealed::{Direction, Sealed};
use crate::secret::{ClusterSecret, Key, expand};

const MAGIC: &[u8; 4] = b"SPER";
/// The version of the protocol. A server closes connections of other versions, so callers read the bucket
/// until both sides have the same.
const VERSION: u8 = 1;
const PUBLIC_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const KEY_AT: usize = 8;
const PUBLIC_AT: usize = KEY_AT + 8;
const CALLER_TAG_AT: usize = PUBLIC_AT + PUBLIC_BYTES;
const CALLER_BYTES: usize = CALLER_TAG_AT + TAG_BYTES;
const SERVER_BYTES: usize = PUBLIC_BYTES + TAG_BYTES;

/// Opens a connection as the caller.
pub(crate) async fn call<S>(mut stream: S, secret: &ClusterSecret) -> Result<Sealed<S>, CallError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (key, own) = (secret.own(), KeyPair::new()?);
    let mut sent = Vec::with_capacity(CALLER_BYTES + PUBLIC_BYTES);
    sent.extend_from_slice(MAGIC);
    sent.extend_from_slice(&[VERSION, 0, 0, 0]);
    sent.extend_from_slice(&key.id);
    sent.extend_from_slice(&own.public);
    let own_tag = tag(&key, &sent);
    sent.extend_from_slice(&own_tag);
    stream.write_all(&sent).await?;
    stream.flush().await?;

    let mut reply = [0; SERVER_BYTES];
    // A server that does not accept the secret closes the connection.
    stream.read_exact(&mut reply).await.map_err(|_| CallError::Stranger)?;
    let (public, said) = reply.split_at(PUBLIC_BYTES);
    sent.extend_from_slice(public);
    verify(&key, &sent, said)?;
    let (to_server, to_caller) = own.agree(public, &key, &sent)?;
    Ok(Sealed::new(stream, Direction::new(to_server), Direction::new(to_caller)))
}

/// Opens a connection as the server.
pub(crate) async fn accept<S>(mut stream: S, secret: &ClusterSecret) -> Result<Sealed<S>, CallError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut hello = [0; CALLER_BYTES];
    stream.read_exact(&mut hello).await?;
    let is_known = hello.starts_with(MAGIC) && hello[MAGIC.len()] == VERSION;
    let key = secret.with_id(&hello[KEY_AT..PUBLIC_AT]).filter(|_| is_known).ok_or(CallError::Stranger)?;
    verify(&key, &hello[..CALLER_TAG_AT], &hello[CALLER_TAG_AT..])?;

    let own = KeyPair::new()?;
    let mut sent = hello.to_vec();
    sent.extend_from_slice(&own.public);
    let mut reply = own.public.clone();
    reply.extend_from_slice(&tag(&key, &sent));
    let (to_server, to_caller) = own.agree(&hello[PUBLIC_AT..CALLER_TAG_AT], &key, &sent)?;
    stream.write_all(&reply).await?;
    stream.flush().await?;
    Ok(Sealed::new(stream, Direction::new(to_caller), Direction::new(to_server)))
}

/// A pair of keys for one connection.
struct KeyPair {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

impl KeyPair {
    fn new() -> Result<Self, CallError> {
        // The library accepts no other source of randomness for private keys.
        let random = ring::rand::SystemRandom::new();
        let failed = |_| CallError::Ended("the operating system returns no random bytes".to_owned());
        let private = EphemeralPrivateKey::generate(&X25519, &random).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?.as_ref().to_vec();
        Ok(Self { private, public })
    }

    /// The keys of both directions: to the server, to the caller.
    fn agree(
        self,
        public: &[u8],
        key: &Key,
        sent: &[u8],
    ) -> Result<(aead::UnboundKey, aead::UnboundKey), CallError> {
        let other = UnparsedPublicKey::new(&X25519, public);
        let salt = digest::digest(&digest::SHA256, sent);
        let derived = agree_ephemeral(self.private, &other, |shared| {
            let mut secrets = key.key.to_vec();
            secrets.extend_from_slice(shared);
            hkdf::Salt::new(hkdf::HKDF_SHA256, salt.as_ref()).extract(&secrets)
        });
        let derived = derived.map_err(|_| CallError::Stranger)?;
        let direction = |purpose: &[u8]| {
            let mut bytes = [0; 32];
            expand(&derived, purpose, &mut bytes);
            aead::UnboundKey::new(&aead::AES_256_GCM, &bytes).map_err(|_| CallError::Stranger)
        };
        Ok((direction(b"to server")?, direction(b"to caller")?))
    }
}

fn tag(key: &Key, sent: &[u8]) -> [u8; TAG_BYTES] {
    let whole = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.key), sent);
    std::array::from_fn(|at| whole.as_ref()[at])
}

/// Compares in constant time.
fn verify(key: &Key, sent: &[u8], said: &[u8]) -> Result<(), CallError> {
    let is_equal = tag(key, sent).ct_eq(said);
    if bool::from(is_equal) { Ok(()) } else { Err(CallError::Stranger) }
}

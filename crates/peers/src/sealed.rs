//! Messages in sealed frames over a connection.
//!
//! A frame is the length of its content (u32, little-endian, 1 to 64 KiB), the content sealed with
//! AES-256-GCM, and the tag of 16 bytes. The nonce is the number of the frame in its direction, so a frame
//! that is left out, repeated, moved or sent back is not authentic. The length is authenticated with the
//! frame. The first byte of the content is 1 if the frame is the last one of its message, else 0.
//!
//! **Invariants.** A nonce is used once: numbers only increase, and a connection ends long before they are
//! used up. Memory grows with what has arrived, never with what a length announces. After an error the
//! connection is not used any more.

use bytes::{Bytes, BytesMut};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::failure::CallError;

/// Maximum length of the content of a frame.
const FRAME_BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

/// A connection whose frames are sealed.
pub(crate) struct Sealed<S> {
    stream: S,
    out: Direction,
    into: Direction,
    /// The frame that is being sent or received.
    frame: Vec<u8>,
}

/// The key of one direction and the number of its next frame.
pub(crate) struct Direction {
    key: LessSafeKey,
    next: u64,
}

impl Direction {
    pub(crate) fn new(key: UnboundKey) -> Self {
        Self { key: LessSafeKey::new(key), next: 0 }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sealed<S> {
    pub(crate) fn new(stream: S, out: Direction, into: Direction) -> Self {
        Self { stream, out, into, frame: Vec::new() }
    }

    /// Sends a message that consists of these parts.
    pub(crate) async fn send(&mut self, parts: &[Bytes]) -> Result<(), CallError> {
        let mut left: usize = parts.iter().map(Bytes::len).sum();
        let mut parts = parts.iter().map(|part| &part[..]);
        let mut part: &[u8] = &[];
        loop {
            let length = left.min(FRAME_BYTES_MAX - 1);
            left -= length;
            self.frame.clear();
            self.frame.push(u8::from(left == 0));
            while self.frame.len() <= length {
                if part.is_empty() {
                    part = parts.next().unwrap_or_default();
                    continue;
                }
                let (taken, rest) = part.split_at(part.len().min(length + 1 - self.frame.len()));
                self.frame.extend_from_slice(taken);
                part = rest;
            }
            self.send_frame().await?;
            if left == 0 {
                break;
            }
        }
        self.stream.flush().await?;
        Ok(())
    }

    async fn send_frame(&mut self) -> Result<(), CallError> {
        let length = (self.frame.len() as u32).to_le_bytes();
        let nonce = self.out.nonce();
        let sealed = self.out.key.seal_in_place_append_tag(nonce, Aad::from(length), &mut self.frame);
        sealed.map_err(|_| CallError::Forged)?;
        self.stream.write_all(&length).await?;
        self.stream.write_all(&self.frame).await?;
        Ok(())
    }

    /// Receives a message of at most `most` bytes; `None` if the other side closed the connection between
    /// two messages.
    pub(crate) async fn receive(&mut self, most: usize) -> Result<Option<Bytes>, CallError> {
        let mut message = BytesMut::new();
        let mut is_first = true;
        loop {
            let mut length = [0; LENGTH_BYTES];
            match self.stream.read_exact(&mut length).await {
                Ok(_) => {}
                Err(error) if is_first && error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
            is_first = false;
            let content = u32::from_le_bytes(length) as usize;
            if content == 0 || content > FRAME_BYTES_MAX {
                return Err(CallError::Forged);
            }
            if message.len() + content - 1 > most {
                return Err(CallError::Long { most });
            }
            self.frame.resize(content + TAG_BYTES, 0);
            self.stream.read_exact(&mut self.frame).await?;
            let nonce = self.into.nonce();
            let opened = self.into.key.open_in_place(nonce, Aad::from(length), &mut self.frame);
            let opened = opened.map_err(|_| CallError::Forged)?;
            message.extend_from_slice(&opened[1..]);
            if opened[0] == 1 {
                return Ok(Some(message.freeze()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_base::SecretLines;
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::handshake;
    use crate::secret::ClusterSecret;

    const BUFFER: usize = 1 << 20;

    fn of(text: &str) -> ClusterSecret {
        ClusterSecret::of(&SecretLines::parse(text.as_bytes()).unwrap())
    }

    fn secret(letter: &str) -> ClusterSecret {
        of(&letter.repeat(32))
    }

    async fn pair() -> (Sealed<DuplexStream>, Sealed<DuplexStream>) {
        let (caller, server) = duplex(BUFFER);
        let secret = secret("s");
        let both = tokio::join!(handshake::call(caller, &secret), handshake::accept(server, &secret));
        (both.0.unwrap(), both.1.unwrap())
    }

    #[tokio::test]
    async fn messages_of_every_length_arrive_in_order() {
        let (mut caller, mut server) = pair().await;
        for length in [0, 1, FRAME_BYTES_MAX - 2, FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX, 200_000] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (one, two) = message.split_at(length / 3);
            let parts = [Bytes::copy_from_slice(one), Bytes::new(), Bytes::copy_from_slice(two)];
            caller.send(&parts).await.unwrap();
            assert_eq!(server.receive(length).await.unwrap().unwrap(), message);
            server.send(&[Bytes::from(message.clone())]).await.unwrap();
            assert_eq!(caller.receive(length).await.unwrap().unwrap(), message);
        }
        drop(caller);
        assert!(server.receive(10).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_message_beyond_its_bound_is_refused_before_it_is_received() {
        let (mut caller, mut server) = pair().await;
        caller.send(&[Bytes::from(vec![7; 1_001])]).await.unwrap();
        assert!(matches!(server.receive(1_000).await, Err(CallError::Long { most: 1_000 })));
    }

    #[tokio::test]
    async fn another_secret_opens_nothing_and_gets_no_byte() {
        let (caller, server) = duplex(BUFFER);
        let (ours, others) = (secret("s"), secret("t"));
        let server = async { drop(handshake::accept(server, &ours).await.map(drop).unwrap_err()) };
        let caller = async { handshake::call(caller, &others).await.map(drop).unwrap_err() };
        let (error, ()) = tokio::join!(caller, server);
        assert!(matches!(error, CallError::Stranger), "{error}");
    }

    #[tokio::test]
    async fn a_process_with_the_next_secret_in_its_second_line_accepts_both() {
        let (old, new) = ("o".repeat(32), "n".repeat(32));
        let of = |text: String| of(&text);
        let (before, during) = (of(old.clone()), of(format!("{old}\n{new}")));
        let after = of(format!("{new}\n{old}"));
        for (from, to) in [(&before, &during), (&during, &before), (&after, &during), (&during, &after)] {
            let (caller, server) = duplex(BUFFER);
            let both = tokio::join!(handshake::call(caller, from), handshake::accept(server, to));
            assert!(both.0.is_ok() && both.1.is_ok());
        }
    }

    /// Passes a handshake on between a caller and a server. Returns what the caller sent.
    async fn relay_handshake(caller: &mut DuplexStream, server: &mut DuplexStream) -> [u8; 64] {
        let (mut hello, mut reply) = ([0; 64], [0; 48]);
        caller.read_exact(&mut hello).await.unwrap();
        server.write_all(&hello).await.unwrap();
        server.read_exact(&mut reply).await.unwrap();
        caller.write_all(&reply).await.unwrap();
        hello
    }

    /// Records what a caller sends, and sends it again on another connection.
    #[tokio::test]
    async fn a_recorded_conversation_is_refused_when_it_is_replayed() {
        let (caller, mut middle) = duplex(BUFFER);
        let (mut relay, server) = duplex(BUFFER);
        let secret = secret("s");
        let recorded = async {
            let hello = relay_handshake(&mut middle, &mut relay).await;
            let mut rest = [0; 4 + 6 + 16];
            middle.read_exact(&mut rest).await.unwrap();
            [&hello[..], &rest[..]].concat()
        };
        let call = async {
            let mut sealed = handshake::call(caller, &secret).await.unwrap();
            sealed.send(&[Bytes::from_static(b"hello")]).await.unwrap();
        };
        let (recorded, (), served) = tokio::join!(recorded, call, handshake::accept(server, &secret));
        drop(served.unwrap());

        let (mut replay, server) = duplex(BUFFER);
        replay.write_all(&recorded).await.unwrap();
        let mut sealed = handshake::accept(server, &secret).await.unwrap();
        assert!(matches!(sealed.receive(100).await, Err(CallError::Forged)));
    }

    #[tokio::test]
    async fn a_changed_repeated_or_reordered_frame_is_refused() {
        for change in 0..3 {
            let (caller, mut middle) = duplex(BUFFER);
            let (mut relay, server) = duplex(BUFFER);
            let secret = secret("s");
            let call = async {
                let mut sealed = handshake::call(caller, &secret).await.unwrap();
                sealed.send(&[Bytes::from_static(b"one")]).await.unwrap();
                sealed.send(&[Bytes::from_static(b"two")]).await.unwrap();
            };
            let attack = async {
                relay_handshake(&mut middle, &mut relay).await;
                let mut frames = [[0; 24]; 2];
                middle.read_exact(&mut frames[0]).await.unwrap();
                middle.read_exact(&mut frames[1]).await.unwrap();
                match change {
                    0 => frames[1][9] ^= 1,
                    1 => frames[1] = frames[0],
                    _ => frames.swap(0, 1),
                }
                relay.write_all(&frames.concat()).await.unwrap();
                relay
            };
            let serve = async {
                let mut sealed = handshake::accept(server, &secret).await.unwrap();
                let first = sealed.receive(100).await;
                if change < 2 {
                    assert_eq!(first.unwrap().unwrap(), b"one"[..]);
                    assert!(matches!(sealed.receive(100).await, Err(CallError::Forged)));
                } else {
                    assert!(matches!(first, Err(CallError::Forged)));
                }
            };
            let _ = tokio::join!(call, attack, serve);
        }
    }
}

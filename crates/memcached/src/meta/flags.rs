//! The flags of meta commands.
//!
//! Invariants: each letter stands at most once; a letter that memcached does not know is an error.
//! Numbers are checked here, before anything is done.

use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::operations::KEY_BYTES_MAX;
use crate::output::Bytes;
use crate::time::expires_at;
use crate::words::{Words, signed, unsigned, unsigned_32};

/// Most words of a meta command, its name and key included.
const WORDS_MAX: usize = 20;
/// Longest opaque flag in bytes, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";

/// What the flags of a command say.
#[derive(Debug, Default)]
pub(crate) struct Flags<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
    /// Letters that are there, as bits of ASCII.
    seen: u128,
    /// `q`.
    pub quiet: bool,
    /// `v`.
    pub value: bool,
    /// `N`.
    pub vivify: Option<u32>,
    /// `T`.
    pub expires_at: Option<u32>,
    /// `R`: win when the item ends before this second.
    pub recache_before: Option<u32>,
    /// `C`.
    pub compare: Option<u64>,
    /// `E`.
    pub cas: Option<u64>,
    /// `F`.
    pub client_flags: u32,
    /// `M`.
    pub mode: Option<u8>,
    /// `J`.
    pub initial: u64,
    /// `D`.
    pub delta: u64,
}

impl<'a> Flags<'a> {
    /// Reads the words after the key (and the length of `ms`), or says what to answer. `before` is
    /// the number of words before them.
    pub fn read(words: Words<'a>, before: usize, now: u32) -> Result<Self, &'static [u8]> {
        let mut flags = Self { delta: 1, ..Self::default() };
        let mut failed = None;
        for word in words {
            if flags.count + before >= WORDS_MAX {
                return Err(b"CLIENT_ERROR options flags are too long");
            }
            let letter = word[0];
            if letter >= 127 || flags.seen & 1 << letter != 0 {
                return Err(b"CLIENT_ERROR duplicate flag");
            }
            flags.seen |= 1 << letter;
            flags.words[flags.count] = word;
            flags.count += 1;
            // a wrong letter outweighs a wrong number
            if let Err(error) = flags.apply(letter, &word[1..], now)? {
                failed = Some(error);
            }
        }
        match failed {
            None => Ok(flags),
            Some(error) => Err(error),
        }
    }

    fn apply(
        &mut self,
        letter: u8,
        argument: &[u8],
        now: u32,
    ) -> Result<Result<(), &'static [u8]>, &'static [u8]> {
        let time = || signed(argument).map(|expiry| expires_at(expiry, now)).ok_or(BAD_TOKEN);
        let number = || unsigned(argument).ok_or(BAD_TOKEN);
        let set = |field: &mut Option<u32>| time().map(|at| *field = Some(at));
        Ok(match letter {
            b'N' => set(&mut self.vivify),
            b'T' => set(&mut self.expires_at),
            b'R' => set(&mut self.recache_before),
            b'C' => number().map(|cas| self.compare = Some(cas)),
            b'E' => number().map(|cas| self.cas = Some(cas)),
            b'F' => unsigned_32(argument)
                .map(|client_flags| self.client_flags = client_flags)
                .ok_or(b"CLIENT_ERROR bad command line format"),
            b'J' => unsigned(argument)
                .map(|initial| self.initial = initial)
                .ok_or(b"CLIENT_ERROR invalid numeric initial value"),
            b'D' => unsigned(argument)
                .map(|delta| self.delta = delta)
                .ok_or(b"CLIENT_ERROR invalid numeric delta value"),
            b'M' => {
                self.mode = Some(argument.first().copied().unwrap_or(b' '));
                Ok(())
            }
            b'O' if argument.len() >= OPAQUE_BYTES_MAX => Err(b"CLIENT_ERROR opaque token too long"),
            b'q' => {
                self.quiet = true;
                Ok(())
            }
            b'v' => {
                self.value = true;
                Ok(())
            }
            b'b' | b'I' | b'L' | b'O' | b'P' | b'c' | b'f' | b'h' | b'k' | b'l' | b's' | b't' | b'u'
            | b'x' => Ok(()),
            _ => return Err(b"CLIENT_ERROR invalid flag"),
        })
    }

    /// Whether a letter is there.
    pub fn has(&self, letter: u8) -> bool {
        self.seen & 1 << letter != 0
    }

    /// The flags in order.
    pub fn words(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }

    /// Adds the flags `O` and `k` of an answer that says nothing else.
    pub fn write_echo(&self, text: &[u8], out: &mut Bytes) {
        for word in self.words() {
            self.write_common(word, text, out.buffer());
        }
    }

    /// Adds what the flags `O`, `k` and `b` return; `text` is the key as the client wrote it.
    pub fn write_common(&self, word: &[u8], text: &[u8], out: &mut Vec<u8>) {
        match word[0] {
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            b'k' => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(text);
                if self.has(b'b') {
                    out.extend_from_slice(b" b");
                }
            }
            _ => {}
        }
    }
}

/// A key as the cache knows it: the client's text, or the bytes that it encodes.
pub(crate) enum Key<'a> {
    Text(&'a [u8]),
    Decoded(Vec<u8>),
}

impl<'a> Key<'a> {
    /// The key of `text`, which is in base 64 if `encoded`.
    pub fn read(text: &'a [u8], encoded: bool) -> Option<Self> {
        if !encoded {
            return Some(Self::Text(text));
        }
        let bytes = STANDARD.decode(text).ok()?;
        (!bytes.is_empty()).then_some(Self::Decoded(bytes))
    }
}

impl Deref for Key<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Decoded(bytes) => bytes,
        }
    }
}

/// A meta command's key and flags.
pub(crate) struct Request<'a> {
    /// The key as the client wrote it.
    pub text: &'a [u8],
    pub key: Key<'a>,
    pub flags: Flags<'a>,
}

impl<'a> Request<'a> {
    /// Reads the rest of a line after the name, or says what to answer.
    pub fn read(mut words: Words<'a>, now: u32) -> Result<Self, &'static [u8]> {
        let text = words.next().unwrap_or_default();
        Self::with_key(text, words, 2, now)
    }

    /// Reads the flags after a key; `before` is the number of words before them.
    pub fn with_key(
        text: &'a [u8],
        words: Words<'a>,
        before: usize,
        now: u32,
    ) -> Result<Self, &'static [u8]> {
        if text.len() > KEY_BYTES_MAX {
            return Err(b"CLIENT_ERROR bad command line format");
        }
        let flags = Flags::read(words, before, now)?;
        let key = Key::read(text, flags.has(b'b')).ok_or(b"CLIENT_ERROR error decoding key".as_slice())?;
        Ok(Self { text, key, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags<'_>, String> {
        Flags::read(Words::new(line.as_bytes()), 2, 1000).map_err(|e| String::from_utf8_lossy(e).into_owned())
    }

    #[test]
    fn flags_are_read_in_order() {
        let flags = read("s v T30 C5 E6 F7 Oabc N0 MA q").unwrap();
        assert!(flags.value && flags.quiet && flags.has(b's') && !flags.has(b't'));
        assert_eq!((flags.expires_at, flags.vivify), (Some(1030), Some(0)));
        assert_eq!(
            (flags.compare, flags.cas, flags.client_flags, flags.mode),
            (Some(5), Some(6), 7, Some(b'A'))
        );
        assert_eq!(flags.words()[0], b"s");
        assert_eq!((flags.delta, flags.initial), (1, 0));
    }

    #[test]
    fn wrong_flags_have_memcacheds_words() {
        for (line, error) in [
            ("s s", "CLIENT_ERROR duplicate flag"),
            ("m o o", "CLIENT_ERROR invalid flag"),
            ("T", "CLIENT_ERROR bad token in command line format"),
            ("C-1", "CLIENT_ERROR bad token in command line format"),
            ("Dx", "CLIENT_ERROR invalid numeric delta value"),
            ("O0123456789012345678901234567890123", "CLIENT_ERROR opaque token too long"),
            ("Tx z", "CLIENT_ERROR invalid flag"),
            ("a b c d e f g h i j k l m n o p q r s t", "CLIENT_ERROR invalid flag"),
        ] {
            assert_eq!(read(line).unwrap_err(), error, "{line}");
        }
        let many = "b c f h k l s t u v x I L P q T1 C1 E1 F1";
        assert_eq!(read(many).unwrap_err(), "CLIENT_ERROR options flags are too long");
    }
}

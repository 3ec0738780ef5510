//! The flags of meta commands.
//!
//! Invariants: each letter occurs at most once; a letter that memcached does not have is an error.
//! Numbers are validated here, before the command has any effect.

use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::operations::KEY_BYTES_MAX;
use crate::output::Bytes;
use crate::time::expires_at;
use crate::words::{Words, signed, unsigned, unsigned_32};

/// The largest number of words of a meta command, including its name and key.
const WORDS_MAX: usize = 20;
/// The longest opaque flag in bytes, including its letter.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";

/// The parsed flags of a command.
#[derive(Debug, Default)]
pub(crate) struct Flags<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
    /// The letters that are present, as a set of ASCII bits.
    seen: u128,
    /// Flag `q`: suppress the expected answer.
    pub quiet: bool,
    /// Flag `v`: return the value.
    pub value: bool,
    /// Flag `N`: create a missing item with this expiry.
    pub vivify: Option<u32>,
    /// Flag `T`: the new expiry.
    pub expires_at: Option<u32>,
    /// Flag `R`: win the refresh when the item expires before this second.
    pub recache_before: Option<u32>,
    /// Flag `C`: the version number that the item must have.
    pub compare: Option<u64>,
    /// Flag `E`: the new version number.
    pub cas: Option<u64>,
    /// Flag `F`: the client flags.
    pub client_flags: u32,
    /// Flag `M`: the mode, as its letter.
    pub mode: Option<u8>,
    /// Flag `J`: the initial value of a created number.
    pub initial: u64,
    /// Flag `D`: the amount by which a number changes.
    pub delta: u64,
}

impl<'a> Flags<'a> {
    /// Parses the words after the key (and after the length of `ms`). An error is the answer to the
    /// client. `before` is the number of words before them.
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
            // an invalid letter takes precedence over an invalid number
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

    /// Returns whether a letter is present.
    pub fn has(&self, letter: u8) -> bool {
        self.seen & 1 << letter != 0
    }

    /// Returns the flags in order.
    pub fn words(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }

    /// Appends the flags `O` and `k` to an answer without other flags.
    pub fn write_echo(&self, text: &[u8], out: &mut Bytes) {
        for word in self.words() {
            self.write_common(word, text, out.buffer());
        }
    }

    /// Appends what the flags `O`, `k` and `b` return; `text` is the key as the client sent it.
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

/// A key of the cache: the client's text, or the bytes that it encodes.
pub(crate) enum Key<'a> {
    Text(&'a [u8]),
    Decoded(Vec<u8>),
}

impl<'a> Key<'a> {
    /// Decodes the key of `text`, which is in base 64 if `encoded`.
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

/// The key and flags of a meta command.
pub(crate) struct Request<'a> {
    /// The key as the client sent it.
    pub text: &'a [u8],
    pub key: Key<'a>,
    pub flags: Flags<'a>,
}

impl<'a> Request<'a> {
    /// Parses the words after the name. An error is the answer to the client.
    pub fn read(mut words: Words<'a>, now: u32) -> Result<Self, &'static [u8]> {
        let text = words.next().unwrap_or_default();
        Self::with_key(text, words, 2, now)
    }

    /// Parses the flags after a key; `before` is the number of words before them.
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
    fn flags_are_parsed_in_order() {
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
    fn invalid_flags_get_the_errors_of_memcached() {
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

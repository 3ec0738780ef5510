//! Finds the ends of the messages of a connection.

use crate::refusal::Reason;

/// The largest line in bytes, as in carbon.
pub const LINE_BYTES_MAX: usize = 16_384;
/// The default for the largest message in bytes, without its length, as in carbon.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes of a length prefix.
const LENGTH_BYTES: usize = 4;

/// How messages are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each message ends with a line feed.
    Lines,
    /// Each message is preceded by its length in four bytes, big-endian.
    Lengths,
}

/// How many of the received bytes can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of complete messages.
    pub whole: usize,
    /// The least size in bytes of the message after them, as far as it is known.
    pub next: usize,
}

/// The connection must be closed: a message after the complete ones is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless {
    /// Bytes of complete messages before it.
    pub whole: usize,
    /// The limit that it exceeds.
    pub reason: Reason,
}

impl Framing {
    /// Finds the complete messages. Messages with length prefixes have at most `frame_max` bytes.
    pub fn cut(self, bytes: &[u8], frame_max: usize) -> Result<Cut, Endless> {
        match self {
            Self::Lines => cut_lines(bytes),
            Self::Lengths => cut_lengths(bytes, frame_max),
        }
    }
}

fn cut_lines(bytes: &[u8]) -> Result<Cut, Endless> {
    let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let rest = bytes.len() - whole;
    match rest > LINE_BYTES_MAX {
        true => Err(Endless { whole, reason: Reason::LineTooLong }),
        false => Ok(Cut { whole, next: rest + 1 }),
    }
}

fn cut_lengths(bytes: &[u8], frame_max: usize) -> Result<Cut, Endless> {
    let mut whole = 0;
    loop {
        let Some(length) = bytes[whole..].first_chunk::<LENGTH_BYTES>() else {
            return Ok(Cut { whole, next: LENGTH_BYTES });
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > frame_max {
            return Err(Endless { whole, reason: Reason::FrameTooLong });
        }
        let end = whole + LENGTH_BYTES + length;
        if end > bytes.len() {
            return Ok(Cut { whole, next: LENGTH_BYTES + length });
        }
        whole = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_last_line_feed_and_have_a_limit() {
        assert_eq!(Framing::Lines.cut(b"a\nb\nc", 0), Ok(Cut { whole: 4, next: 2 }));
        assert_eq!(Framing::Lines.cut(b"", 0), Ok(Cut { whole: 0, next: 1 }));
        let endless = [b"a\n".to_vec(), vec![b'x'; LINE_BYTES_MAX + 1]].concat();
        let refused = Err(Endless { whole: 2, reason: Reason::LineTooLong });
        assert_eq!(Framing::Lines.cut(&endless, 0), refused);
        assert!(Framing::Lines.cut(&endless[..endless.len() - 1], 0).is_ok());
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_length_prefix() {
        let cut = |bytes: &[u8]| Framing::Lengths.cut(bytes, 3);
        assert_eq!(cut(&[0, 0, 0, 1, 9, 0, 0, 0, 3, 7]), Ok(Cut { whole: 5, next: 7 }));
        assert_eq!(cut(&[0, 0, 0]), Ok(Cut { whole: 0, next: 4 }));
        let refused = Err(Endless { whole: 4, reason: Reason::FrameTooLong });
        assert_eq!(cut(&[0, 0, 0, 0, 0, 0, 0, 4]), refused);
        assert!(cut(&[0xFF; 4]).is_err());
    }
}

//! Words and numbers of a command line.
//!
//! Invariants: a word is never empty and contains no space. Numbers are read as memcached reads
//! them: decimal, an optional sign, nothing after the digits; what does not fit is an error and
//! never wraps.

/// The words of a line without its end, separated by any number of spaces.
#[derive(Clone)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// Where the next word starts in the line, at the latest its end.
    pub fn position(&mut self) -> usize {
        while self.line.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.at
    }

    /// The words from `position` on.
    pub fn from(line: &'a [u8], position: usize) -> Self {
        Self { line, at: position.min(line.len()) }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.position();
        let rest = &self.line[start..];
        if rest.is_empty() {
            return None;
        }
        let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        self.at = start + length;
        Some(&rest[..length])
    }
}

/// An unsigned number; a sign makes it no number.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number.checked_mul(10)?.checked_add(u64::from(digit))).flatten()
    })
}

/// A signed number.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) if !digits.starts_with(b"+") => 0i64.checked_sub_unsigned(unsigned(digits)?),
        Some(_) => None,
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// An unsigned number of 32 bits.
pub(super) fn unsigned_32(word: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(word)?).ok()
}

/// A number with a fraction.
pub(super) fn fraction(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The number at the start of a stored value, which incr and decr change: its digits end with the
/// value or with white space, because older servers padded shrinking numbers with spaces.
pub(super) fn stored_number(value: &[u8]) -> Option<u64> {
    let end = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
    unsigned(&value[..end])
}

/// Appends a decimal number.
#[inline]
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_stands_between_spaces() {
        let of = |line: &'static str| Words::new(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("get  a bb "), [b"get".as_slice(), b"a", b"bb"]);
        assert!(of("").is_empty());
        assert!(of("   ").is_empty());
    }

    #[test]
    fn numbers_are_whole_words_and_never_wrap() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "-1", "18446744073709551616", "1a", "+", "1 "] {
            assert_eq!(unsigned(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-1"), Some(-1));
        for bad in ["", "-", "--1", "-+1", "9223372036854775808"] {
            assert_eq!(signed(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(unsigned_32(b"4294967296"), None);
        assert_eq!(stored_number(b"12  "), Some(12));
        assert_eq!(stored_number(b"12x"), None);
        assert_eq!(stored_number(b""), None);
        let mut out = Vec::new();
        push_number(&mut out, u64::MAX);
        push_number(&mut out, 0);
        assert_eq!(out, b"184467440737095516150");
    }
}

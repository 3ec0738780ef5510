//! Parses the words and numbers of a command line.
//!
//! Invariants: a word is never empty and contains no space. Numbers are parsed as memcached does:
//! decimal, with an optional sign, and nothing after the digits. A number that is out of range is an
//! error and never wraps.

/// The words of a line without its line end, separated by one or more spaces.
#[derive(Clone)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// Returns the offset of the next word in the line, or the end of the line.
    pub fn position(&mut self) -> usize {
        while self.line.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.at
    }

    /// Returns the words from offset `position` on.
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

/// Parses an unsigned number. A minus sign is an error; a plus sign is accepted.
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

/// Parses a signed number.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) if !digits.starts_with(b"+") => 0i64.checked_sub_unsigned(unsigned(digits)?),
        Some(_) => None,
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// Parses an unsigned number of 32 bits.
pub(super) fn unsigned_32(word: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(word)?).ok()
}

/// Parses a finite number with a fraction.
pub(super) fn fraction(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses the number at the start of a stored value, which incr and decr change. memcached parses it
/// with C's `strtoull`: leading blanks and a sign are skipped, and the number ends at a blank, at a NUL
/// or with the value. A minus wraps it at 2^64. A result of 2^63 or more is not a number.
pub(super) fn stored_number(value: &[u8]) -> Option<u64> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let rest = &value[value.iter().position(|byte| !is_blank(byte))?..];
    let is_negative = rest.starts_with(b"-");
    let rest = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"+")).unwrap_or(rest);
    let (digits, end) =
        rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len()));
    if digits.is_empty() || end.first().is_some_and(|byte| !is_blank(byte) && *byte != 0) {
        return None;
    }
    let number = unsigned(digits)?;
    match is_negative {
        true => Some(number.wrapping_neg()).filter(|number| *number < 1 << 63),
        false => Some(number),
    }
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
    fn words_are_separated_by_spaces() {
        let of = |line: &'static str| Words::new(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("get  a bb "), [b"get".as_slice(), b"a", b"bb"]);
        assert!(of("").is_empty());
        assert!(of("   ").is_empty());
    }

    #[test]
    fn a_number_is_a_complete_word_and_never_wraps() {
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
        let mut out = Vec::new();
        push_number(&mut out, u64::MAX);
        push_number(&mut out, 0);
        assert_eq!(out, b"184467440737095516150");
    }

    /// The results of memcached 1.6.18 for these values.
    #[test]
    fn a_stored_number_is_parsed_as_by_strtoull() {
        for (value, expected) in [
            ("12", 12),
            (" 12", 12),
            ("\t\n\x0b\x0c\r12", 12),
            ("12  ", 12),
            ("12\x0b", 12),
            ("12\0", 12),
            ("12\0abc", 12),
            ("12 abc", 12),
            ("+12", 12),
            (" +12", 12),
            (" -0 ", 0),
            ("000000000000000000000000000012", 12),
            ("                              12", 12),
            ("18446744073709551615", u64::MAX),
            ("-18446744073709551615", 1),
            ("-9223372036854775809", i64::MAX as u64),
        ] {
            assert_eq!(stored_number(value.as_bytes()), Some(expected), "{value:?}");
        }
        for value in [
            "",
            " ",
            "x",
            "+",
            "-",
            "+ 12",
            "- 1",
            "-1",
            "-12",
            "++1",
            "+-1",
            "0x10",
            "12x",
            "1.5",
            "1e3",
            "\0",
            "\x0012",
            "18446744073709551616",
            "-18446744073709551616",
            "-9223372036854775808",
            "\u{a0}12",
        ] {
            assert_eq!(stored_number(value.as_bytes()), None, "{value:?}");
        }
    }
}

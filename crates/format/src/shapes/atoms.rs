//! Splits a variable token into constant text and atoms, and writes atoms.
//!
//! An atom is a string of digits, an IPv4 address, a UUID or a hexadecimal string; each value has exactly
//! one written form. Narrow atoms are 64-bit numbers; wide ones are byte strings.

use super::numbers::{MAX_DIGITS, NUMBER_LIMIT, number_of_digits, write_number};
use super::table::Split;
use super::words::{Case, digit_run, load_up_to8, load4, load8};

/// Code of a string of 1 to 19 digits.
pub(super) const NUMBER: u8 = 1;
/// Code of an IPv4 address.
pub(super) const ADDRESS: u8 = 2;
/// Code of a UUID in lower case.
pub(super) const UUID: u8 = 3;
/// Plus its length: code of a string of hexadecimal digits with lower-case letters.
pub(super) const HEX: u8 = 64;
/// Plus its length: the same with upper-case letters.
pub(super) const UPPER_HEX: u8 = 128;

/// Shorter strings of hexadecimal digits are split like other words.
const MIN_HEX: usize = 6;
/// Hexadecimal strings of 1 to this length are atoms.
const MAX_HEX: usize = 63;
/// Longer hexadecimal atoms are wide.
const MAX_NARROW_HEX: usize = 16;
const UUID_LEN: usize = 36;

/// Most bytes of a written atom; writers may write to all of them.
pub(super) const MAX_ATOM: usize = 64;

const DIGIT: u8 = 1;
const LOWER: u8 = 2;
const UPPER: u8 = 4;
const OTHER_LETTER: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => LOWER,
            b'A'..=b'F' => UPPER,
            b'g'..=b'z' | b'G'..=b'Z' => OTHER_LETTER,
            _ => 0,
        };
        byte += 1;
    }
    class
};

/// The written form of an atom.
pub(super) enum AtomForm {
    Number,
    Address,
    Uuid,
    /// This many hexadecimal digits.
    LowerHex(usize),
    UpperHex(usize),
}

/// Returns the form of the atoms of a code.
pub(super) fn form_of(code: u8) -> AtomForm {
    match (code, hex_of(code)) {
        (NUMBER, _) => AtomForm::Number,
        (ADDRESS, _) => AtomForm::Address,
        (_, Some((len, Case::Lower))) => AtomForm::LowerHex(len),
        (_, Some((len, Case::Upper))) => AtomForm::UpperHex(len),
        _ => AtomForm::Uuid,
    }
}

/// Returns length and case of a hexadecimal atom.
fn hex_of(code: u8) -> Option<(usize, Case)> {
    match code {
        HEX..UPPER_HEX => Some((usize::from(code - HEX), Case::Lower)),
        UPPER_HEX..192 => Some((usize::from(code - UPPER_HEX), Case::Upper)),
        _ => None,
    }
}

/// Whether a code is that of an atom.
pub(super) fn is_atom(code: u8) -> bool {
    matches!(code, NUMBER | ADDRESS | UUID) || hex_of(code).is_some_and(|(len, _)| len > 0)
}

/// Returns the bytes that hold a wide atom; `None` when the atom is narrow.
pub(super) fn wide_bytes(code: u8) -> Option<usize> {
    match hex_of(code) {
        Some((len, _)) if len > MAX_NARROW_HEX => Some(len.div_ceil(2)),
        None if code == UUID => Some(16),
        _ => None,
    }
}

/// Whether a value of a narrow atom can be written.
pub(super) fn is_in_range(value: u64, code: u8) -> bool {
    code != NUMBER || value < NUMBER_LIMIT
}

/// Splits one token. An atom is pushed as its value, or as the position of its bytes when it is wide.
pub(super) struct Cutter<'a> {
    pub(super) text: &'a [u8],
    pub(super) split: &'a mut Split,
    pub(super) atoms: &'a mut Vec<u64>,
    pub(super) wide: &'a mut Vec<u8>,
}

impl Cutter<'_> {
    /// Splits `text[start..end]`.
    pub(super) fn cut(&mut self, start: usize, end: usize) {
        self.split.begin(start);
        match end - start {
            UUID_LEN if self.uuid(start) => return,
            16 | 32 if self.hex(start, end, Case::Lower) => return,
            _ => {}
        }
        let mut at = start;
        while at < end {
            at = match CLASS[self.text[at] as usize] {
                0 => at + 1,
                DIGIT => self.digits(at, end),
                _ => self.word(at, end),
            };
        }
    }

    fn push(&mut self, start: usize, end: usize, code: u8, value: u64) -> usize {
        self.split.slot(self.text, start, end, code);
        self.atoms.push(value);
        end
    }

    /// Splits a part that starts with a digit: mostly it is only a number.
    #[inline(always)]
    fn digits(&mut self, start: usize, end: usize) -> usize {
        let stop = start + digit_run(self.text, start);
        if stop - start == 8 || (stop < end && CLASS[self.text[stop] as usize] != 0) {
            return self.word(start, end);
        }
        let stop = stop.min(end);
        if stop < end
            && self.text[stop] == b'.'
            && let Some((address, after)) = address(self.text, start, end)
        {
            return self.push(start, after, ADDRESS, u64::from(address));
        }
        let number = number_of_digits(self.text, start, stop - start);
        self.push(start, stop, NUMBER, number)
    }

    /// Splits a run of letters and digits.
    fn word(&mut self, start: usize, end: usize) -> usize {
        let (mut stop, mut classes) = (start, 0);
        while stop < end && CLASS[self.text[stop] as usize] != 0 {
            classes |= CLASS[self.text[stop] as usize];
            stop += 1;
        }
        let len = stop - start;
        if len == 8 && classes & (UPPER | OTHER_LETTER) == 0 && end - start >= UUID_LEN && self.uuid(start) {
            return start + UUID_LEN;
        }
        if classes & DIGIT == 0 {
            return stop;
        }
        let is_hex = match classes & !DIGIT {
            LOWER if len >= MIN_HEX => self.hex(start, stop, Case::Lower),
            UPPER if len >= MIN_HEX => self.hex(start, stop, Case::Upper),
            _ if len > 2 && self.text[start..].starts_with(b"0x") => {
                self.hex(start + 2, stop, Case::Lower) || self.hex(start + 2, stop, Case::Upper)
            }
            _ => false,
        };
        if !is_hex {
            self.numbers(start, stop);
        }
        stop
    }

    fn uuid(&mut self, start: usize) -> bool {
        let text = &self.text[start..start + UUID_LEN];
        if [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
            return false;
        }
        let position = self.wide.len();
        for word in uuid_words(text) {
            let Some(bytes) = Case::Lower.read(word) else {
                self.wide.truncate(position);
                return false;
            };
            self.wide.extend_from_slice(&bytes.to_le_bytes());
        }
        self.push(start, start + UUID_LEN, UUID, position as u64);
        true
    }

    /// Pushes `text[start..end]` as an atom if it consists of hexadecimal digits.
    fn hex(&mut self, start: usize, end: usize, case: Case) -> bool {
        let len = end - start;
        if !(1..=MAX_HEX).contains(&len) {
            return false;
        }
        let (position, is_wide) = (self.wide.len(), len > MAX_NARROW_HEX);
        // Number of bytes of the first word that its digits do not fill.
        let (mut value, mut unfilled) = (0, (7 - (len - 1) % 8) / 2);
        for word in hex_words(self.text, start, len) {
            let Some(bytes) = case.read(word) else {
                self.wide.truncate(position);
                return false;
            };
            value = value << 32 | u64::from(bytes.swap_bytes());
            if is_wide {
                self.wide.extend_from_slice(&bytes.to_le_bytes()[unfilled..]);
                unfilled = 0;
            }
        }
        let code = len as u8 + if case == Case::Lower { HEX } else { UPPER_HEX };
        self.push(start, end, code, if is_wide { position as u64 } else { value });
        true
    }

    /// Pushes the digits of a word as numbers.
    fn numbers(&mut self, start: usize, stop: usize) {
        let mut at = start;
        while at < stop {
            let run = self.text[at..stop].iter().take(MAX_DIGITS).take_while(|b| b.is_ascii_digit()).count();
            if run > 0 {
                let number = number_of_digits(self.text, at, run);
                self.push(at, at + run, NUMBER, number);
            }
            at += run.max(1);
        }
    }
}

/// Returns the digits of a UUID in four words.
#[inline(always)]
fn uuid_words(text: &[u8]) -> [u64; 4] {
    let four = |at: usize| u64::from(load4(text, at));
    [load8(text, 0), four(9) | four(14) << 32, four(19) | four(24) << 32, load8(text, 28)]
}

/// Returns words of up to eight hexadecimal digits; the first word is padded with leading zeros.
#[inline(always)]
fn hex_words(text: &[u8], at: usize, len: usize) -> impl Iterator<Item = u64> {
    let head = (len - 1) % 8 + 1;
    let first = load_up_to8(text, at, head);
    let filled =
        if head == 8 { first } else { first << (64 - 8 * head) | 0x3030_3030_3030_3030 >> (8 * head) };
    std::iter::once(filled).chain((head..len).step_by(8).map(move |from| load8(text, at + from)))
}

/// Returns the IPv4 address at `start`, without leading zeros, and its end.
#[inline(always)]
fn address(text: &[u8], start: usize, end: usize) -> Option<(u32, usize)> {
    let (mut at, mut address) = (start, 0);
    for part in 0..4 {
        let len = digit_run(text, at);
        if !(1..=3).contains(&len) || at + len > end || (len > 1 && text[at] == b'0') {
            return None;
        }
        let value = text[at..at + len].iter().fold(0, |v, &b| v * 10 + u32::from(b - b'0'));
        if value > 255 {
            return None;
        }
        address = address << 8 | value;
        at += len;
        if part < 3 {
            if at >= end || text[at] != b'.' {
                return None;
            }
            at += 1;
        }
    }
    Some((address, at))
}

/// The parts of an address, each followed by a dot, and their lengths.
const PARTS: [([u8; 4], u8); 256] = {
    let mut parts = [([b'.'; 4], 0); 256];
    let mut part = 0;
    while part < 256 {
        let mut len = 0;
        if part >= 100 {
            parts[part].0[len] = b'0' + (part / 100) as u8;
            len += 1;
        }
        if part >= 10 {
            parts[part].0[len] = b'0' + (part / 10 % 10) as u8;
            len += 1;
        }
        parts[part].0[len] = b'0' + (part % 10) as u8;
        parts[part].1 = len as u8 + 2;
        part += 1;
    }
    parts
};

/// Writes the text of a narrow atom to the front of `out` and returns its length. The value must be in
/// range.
#[inline(always)]
pub(super) fn write_narrow(value: u64, code: u8, out: &mut [u8; MAX_ATOM]) -> usize {
    match code {
        NUMBER => write_number(value, out.first_chunk_mut().expect("an atom has space for a number")),
        ADDRESS => {
            let mut len = 0;
            for part in (value as u32).to_be_bytes() {
                let (text, text_len) = PARTS[part as usize];
                out[len..len + 4].copy_from_slice(&text);
                len += text_len as usize;
            }
            len - 1
        }
        _ => {
            let (len, case) = hex_of(code).unwrap_or((MAX_NARROW_HEX, Case::Lower));
            let low = case.write((value as u32).swap_bytes());
            if len <= 8 {
                out[..8].copy_from_slice(&(low >> (64 - 8 * len)).to_le_bytes());
                return len;
            }
            let high = case.write(((value >> 32) as u32).swap_bytes());
            out[..8].copy_from_slice(&(high >> (128 - 8 * len)).to_le_bytes());
            out[len - 8..len].copy_from_slice(&low.to_le_bytes());
            len
        }
    }
}

/// Writes the text of a wide atom to the front of `out` and returns its length.
#[inline(always)]
pub(super) fn write_wide(bytes: &[u8], code: u8, out: &mut [u8; MAX_ATOM]) -> usize {
    let word = |at: usize, case: Case| case.write(load4(bytes, at));
    match hex_of(code) {
        Some((len, case)) => {
            let (head, skip) = ((len - 1) % 8 + 1, bytes.len() % 4);
            let mut at = if skip > 0 { skip } else { 4 };
            // The first word has fewer than four bytes unless the length is a multiple of four.
            let first = load4(bytes, 0) << (32 - 8 * at);
            out[..8].copy_from_slice(&(case.write(first) >> (64 - 8 * head)).to_le_bytes());
            let mut to = head;
            while at < bytes.len() {
                out[to..to + 8].copy_from_slice(&word(at, case).to_le_bytes());
                to += 8;
                at += 4;
            }
            len
        }
        None => {
            let words = [0, 4, 8, 12].map(|at| word(at, Case::Lower).to_le_bytes());
            out[..8].copy_from_slice(&words[0]);
            out[9..13].copy_from_slice(&words[1][..4]);
            out[14..18].copy_from_slice(&words[1][4..]);
            out[19..23].copy_from_slice(&words[2][..4]);
            out[24..28].copy_from_slice(&words[2][4..]);
            out[28..36].copy_from_slice(&words[3]);
            for at in [8, 13, 18, 23] {
                out[at] = b'-';
            }
            UUID_LEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the token with its atoms in brackets, after checking that each is read and written back.
    fn cut(token: &str) -> String {
        let (mut split, mut atoms, mut wide) = (Split::default(), Vec::new(), Vec::new());
        let text = format!("|{token}0f");
        let (start, end) = (1, 1 + token.len());
        Cutter { text: text.as_bytes(), split: &mut split, atoms: &mut atoms, wide: &mut wide }
            .cut(start, end);
        let (mut out, mut at) = (String::new(), start);
        for ((slot, end), value) in split.parts().zip(atoms) {
            let code = slot.code();
            assert!(is_atom(code), "{token}");
            let mut written = [b'#'; MAX_ATOM];
            let len = match wide_bytes(code) {
                Some(width) => {
                    let bytes = &wide[value as usize..value as usize + width];
                    write_wide(bytes, code, &mut written)
                }
                None => {
                    assert!(is_in_range(value, code));
                    write_narrow(value, code, &mut written)
                }
            };
            let start = at + slot.constant();
            assert_eq!(&written[..len], &text.as_bytes()[start..end], "{token}");
            out += &format!("{}[{}]", &text[at..start], &text[start..end]);
            at = end;
        }
        out + &text[at..end]
    }

    #[test]
    fn tokens_are_split_into_atoms() {
        let cases = [
            ("20.425", "[20].[425]"),
            ("blk_-3538476831246108150", "blk_-[3538476831246108150]"),
            ("/10.0.255.1:50010", "/[10.0.255.1]:[50010]"),
            ("10.0.256.1", "[10].[0].[256].[1]"),
            ("10.0.06.1", "[10].[0].[06].[1]"),
            ("1.2.3.4.5", "[1.2.3.4].[5]"),
            ("0x77c467066c63f43", "0x[77c467066c63f43]"),
            ("0xFF", "0x[FF]"),
            ("36b666f7-0687-4414-93fc-896b2d96ed35", "[36b666f7-0687-4414-93fc-896b2d96ed35]"),
            ("req-36b666f7-0687-4414-93fc-896b2d96ed35,", "req-[36b666f7-0687-4414-93fc-896b2d96ed35],"),
            ("36b666f7-0687-4414-93fc-896b2d96ed3G", "[36b666f7]-[0687]-[4414]-[93]fc-[896]b[2]d[96]ed[3]G"),
            ("4ed6b88b71e85966", "[4ed6b88b71e85966]"),
            ("4ED6B88B71E85966A", "[4ED6B88B71E85966A]"),
            ("fb93e61a71413e1372e24b66134d4d90", "[fb93e61a71413e1372e24b66134d4d90]"),
            ("12345678901234567890123", "[1234567890123456789][0123]"),
            ("dorneven827", "dorneven[827]"),
            ("rdd_42_1", "rdd_[42]_[1]"),
            ("00012345678", "[00012345678]"),
            ("12345678", "[12345678]"),
            ("v1.2", "v[1].[2]"),
            ("word", "word"),
            ("", ""),
            ("\u{e9}t\u{e9}7", "\u{e9}t\u{e9}[7]"),
        ];
        for (token, expected) in cases {
            assert_eq!(cut(token), expected);
        }
    }

    #[test]
    fn hexadecimal_strings_of_every_length_round_trip() {
        let digits = "7f3a9c0e1b2d4586".repeat(5);
        for len in 6..=70 {
            for text in [digits[..len].to_owned(), digits[..len].to_uppercase()] {
                let expected = if len <= 63 { format!("[{text}]") } else { String::new() };
                let found = cut(&text);
                assert!(len > 63 || found == expected, "{found}");
            }
        }
    }
}

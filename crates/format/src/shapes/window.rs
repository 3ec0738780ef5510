//! The byte classes of the lines around the current position, and the search for the next byte of a
//! class.
//!
//! The masks of a class are contiguous, so one load covers at least 56 bytes from any position: nearly
//! all searches need no branch that is hard to predict.

use sandur_simd::{Carry, Masks, classify};

use super::words::load8;

/// Bytes that are classified at a time: their masks fit into the first-level cache.
const WINDOW: usize = 16 << 10;

/// Zeros before and after the masks of a class.
const PADDING: usize = 8;

/// Bytes that one load covers, from any position.
const SIGHT: usize = 56;

/// The masks of one class, low bits first, with zeros around them.
#[derive(Default)]
pub(super) struct Bits(Vec<u8>);

/// Masks of a part of the lines, which moves forward during splitting.
#[derive(Default)]
pub(super) struct Window {
    base: usize,
    masks: Vec<Masks>,
    pub(super) interest: Bits,
    pub(super) delimiter: Bits,
    pub(super) hard: Bits,
    pub(super) quote: Bits,
    pub(super) value: Bits,
    pub(super) slash: Bits,
    pub(super) digit: Bits,
}

impl Bits {
    fn fill(&mut self, masks: &[Masks], of: impl Fn(&Masks) -> u64) {
        self.0.clear();
        self.0.resize(PADDING + masks.len() * 8 + PADDING, 0);
        let (eights, _) = self.0[PADDING..].as_chunks_mut();
        eights.iter_mut().zip(masks).for_each(|(out, masks)| *out = of(masks).to_le_bytes());
    }

    /// Returns the bits from `offset` on, at least [`SIGHT`].
    #[inline(always)]
    fn from(&self, offset: usize) -> u64 {
        load8(&self.0, PADDING + offset / 8) >> (offset % 8)
    }

    /// Returns the bits before `offset`, at least [`SIGHT`], the nearest highest.
    #[inline(always)]
    fn before(&self, offset: usize) -> u64 {
        load8(&self.0, PADDING + offset / 8 - 7) << (7 - offset % 8) << 1
    }
}

impl Window {
    /// Starts over with other lines.
    pub(super) fn reset(&mut self) {
        self.base = 0;
        self.masks.clear();
    }

    /// Ensures that the masks of `lines[start..end]` are present.
    pub(super) fn cover(&mut self, lines: &[u8], start: usize, end: usize) {
        if start < self.base || end > self.base + self.masks.len() * 64 {
            self.base = start & !63;
            let stop = (self.base + WINDOW).max(end).min(lines.len());
            self.classify(&lines[self.base..stop.max(self.base)]);
        }
    }

    fn classify(&mut self, lines: &[u8]) {
        self.masks.clear();
        let mut carry = Carry::default();
        let (blocks, rest) = lines.as_chunks();
        classify(blocks, &mut carry, &mut self.masks);
        if !rest.is_empty() {
            let mut padded = [b'\n'; 64];
            padded[..rest.len()].copy_from_slice(rest);
            classify(&[padded], &mut carry, &mut self.masks);
        }
        self.interest.fill(&self.masks, |masks| masks.interest);
        self.delimiter.fill(&self.masks, |masks| masks.delimiter);
        self.hard.fill(&self.masks, |masks| masks.hard);
        self.quote.fill(&self.masks, |masks| masks.quote);
        self.value.fill(&self.masks, |masks| masks.value);
        self.slash.fill(&self.masks, |masks| masks.slash);
        self.digit.fill(&self.masks, |masks| masks.digit);
    }

    /// Whether the byte at `at` belongs to a class.
    #[inline(always)]
    pub(super) fn is(&self, class: &Bits, at: usize) -> bool {
        class.from(at - self.base) & 1 != 0
    }

    /// Returns the position of the first byte of a class in `[from, end)`, else `end`.
    #[inline(always)]
    pub(super) fn next(&self, class: &Bits, from: usize, end: usize) -> usize {
        match class.from(from - self.base) {
            0 => self.next_far(class, from + SIGHT, end),
            bits => end.min(from + bits.trailing_zeros() as usize),
        }
    }

    #[cold]
    fn next_far(&self, class: &Bits, mut from: usize, end: usize) -> usize {
        while from < end {
            match class.from(from - self.base) {
                0 => from += SIGHT,
                bits => return end.min(from + bits.trailing_zeros() as usize),
            }
        }
        end
    }

    /// Returns one more than the position of the last byte of a class in `[low, at)`, else `low`.
    #[inline(always)]
    fn after_last(&self, class: &Bits, low: usize, at: usize) -> usize {
        match class.before(at - self.base) {
            0 if at > low + SIGHT => self.after_last_far(class, low, at - SIGHT),
            bits => low.max(at.saturating_sub(bits.leading_zeros() as usize)),
        }
    }

    #[cold]
    fn after_last_far(&self, class: &Bits, low: usize, mut at: usize) -> usize {
        while at > low {
            match class.before(at - self.base) {
                0 => at = at.saturating_sub(SIGHT),
                bits => return low.max(at - bits.leading_zeros() as usize),
            }
        }
        low
    }

    /// Returns the token around the byte at `at`, within `[low, high)`, and whether it consists of
    /// digits. A token with a slash is a path, which ends only at hard delimiters.
    #[inline(always)]
    pub(super) fn token(&self, at: usize, (low, high): (usize, usize)) -> (usize, usize, bool) {
        let start = self.after_last(&self.delimiter, low, at);
        let end = self.next(&self.delimiter, at, high);
        let slash = self.slash.from(start - self.base).trailing_zeros() as usize;
        if slash < end - start || end - start > SIGHT {
            return self.path(start, end, high);
        }
        (start, end, self.is_digits(start, end))
    }

    fn path(&self, start: usize, end: usize, high: usize) -> (usize, usize, bool) {
        let is_path = self.next(&self.slash, start, end) < end;
        (start, if is_path { self.next(&self.hard, end, high) } else { end }, false)
    }

    /// Whether the bytes of `[start, end)`, at most [`SIGHT`], are digits.
    #[inline(always)]
    pub(super) fn is_digits(&self, start: usize, end: usize) -> bool {
        end - start <= SIGHT && (!self.digit.from(start - self.base)).trailing_zeros() as usize >= end - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Window {
        let mut window = Window::default();
        window.cover(text.as_bytes(), 0, text.len());
        window
    }

    #[test]
    fn values_start_after_keys_across_blocks() {
        for shift in 0..70 {
            let text = format!("{}k=v {{\"a\":1,\"b\": \"x\"}}\n", ".".repeat(shift));
            let window = window(&text);
            let starts: Vec<u8> = (0..text.len())
                .filter(|&i| window.is(&window.value, i))
                .map(|i| text.as_bytes()[i])
                .collect();
            assert_eq!(starts, b"v1\"", "shift {shift}");
        }
    }

    #[test]
    fn searches_agree_with_a_check_of_every_byte() {
        let mut text = String::new();
        for n in 0..120 {
            text += &"x".repeat(n % 7 * n % 150);
            text += ["7", " ", "12", "/3", ".", " 4 ", "a5b"][n % 7];
        }
        let bytes = text.as_bytes();
        let window = window(&text);
        for from in (0..text.len()).step_by(3) {
            for end in [from, from + 1, from + 40, from + 200, text.len()].map(|end| end.min(text.len())) {
                let expected = (from..end).find(|&at| bytes[at].is_ascii_digit()).unwrap_or(end);
                assert_eq!(window.next(&window.digit, from, end), expected);
                let last = (from..end).rfind(|&at| bytes[at] == b' ').map_or(from, |at| at + 1);
                assert_eq!(window.after_last(&window.delimiter, from, end), last);
                let digits = bytes[from..end].iter().all(u8::is_ascii_digit);
                assert_eq!(window.is_digits(from, end), digits, "{from}..{end}");
            }
        }
    }

    #[test]
    fn tokens_end_at_delimiters_and_paths_at_hard_ones() {
        let long = "y".repeat(100);
        let text = format!("aa:12 b=/c?d:e {long}7{long}:f /{long}/9?h 1");
        let window = window(&text);
        let token = |around: &str| {
            let at = text.find(around).unwrap();
            let (start, end, digits) = window.token(at, (0, text.len()));
            (&text[start..end], digits)
        };
        assert_eq!(token("12"), ("12", true));
        assert_eq!(token("/c"), ("/c?d:e", false));
        assert_eq!(token("7"), (&*format!("{long}7{long}"), false));
        assert_eq!(token("9"), (&*format!("/{long}/9?h"), false));
        assert_eq!(
            window.token(text.len() - 1, (text.len() - 1, text.len())),
            (text.len() - 1, text.len(), true)
        );
    }
}

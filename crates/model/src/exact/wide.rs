//! An integer of any width times a power of two: the form of a sum that a few floats cannot hold.
//!
//! The number is the sum of `digits[i] * 2^(32 * (first + i))`. Digits are signed and have 31 bits to spare,
//! so that many additions need no carry.
//!
//! Invariant: no operation rounds, except [`Wide::rounded`] and [`Wide::scaled`].

/// Bits of a digit.
const BITS: i32 = 32;
/// An addition changes a digit by less than 2^32, so this many of them fit between two carries.
const ADDITIONS_MAX: u32 = 1 << 30;
/// The lowest bit of a float.
const LOWEST: i32 = -1074;
/// The digits of the widest sum of floats and of their squares, with room for 2^64 of them.
pub const DIGITS_MAX: usize = 136;
/// The lowest place of a digit: that of the square of the smallest float.
pub const FIRST_MIN: i32 = 2 * LOWEST / BITS - 1;

/// An exact sum of any finite floats.
#[derive(Clone, Debug, Default)]
pub struct Wide {
    first: i32,
    digits: Vec<i64>,
    additions: u32,
}

/// The sign, the mantissa and the exponent of a finite float.
fn parts_of(value: f64) -> (bool, u64, i32) {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    match exponent {
        0 => (value.is_sign_negative(), fraction, LOWEST),
        _ => (value.is_sign_negative(), fraction | 1 << 52, exponent + LOWEST - 1),
    }
}

impl Wide {
    /// Adds a finite float.
    pub fn add(&mut self, value: f64) {
        let (negative, mantissa, exponent) = parts_of(value);
        self.add_parts(negative, mantissa, exponent);
    }

    /// Adds the square of a finite float.
    pub fn add_square(&mut self, value: f64) {
        let (_, mantissa, exponent) = parts_of(value);
        let square = u128::from(mantissa) * u128::from(mantissa);
        self.add_parts(false, square as u64, 2 * exponent);
        self.add_parts(false, (square >> 64) as u64, 2 * exponent + 64);
    }

    fn add_parts(&mut self, negative: bool, mantissa: u64, exponent: i32) {
        if mantissa == 0 {
            return;
        }
        self.count_addition();
        let (place, shift) = (exponent.div_euclid(BITS), exponent.rem_euclid(BITS));
        self.cover(place, 3);
        let at = (place - self.first) as usize;
        let mut shifted = u128::from(mantissa) << shift;
        for digit in &mut self.digits[at..at + 3] {
            let part = (shifted & 0xffff_ffff) as i64;
            *digit += if negative { -part } else { part };
            shifted >>= BITS;
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.carry();
        if other.digits.is_empty() {
            return;
        }
        self.count_addition();
        self.cover(other.first, other.digits.len());
        let at = (other.first - self.first) as usize;
        self.digits[at..].iter_mut().zip(&other.digits).for_each(|(own, digit)| *own += digit);
    }

    /// Multiplies by a whole number.
    pub fn multiply(&mut self, factor: u64) {
        self.carry();
        let mut carried = 0i128;
        for digit in &mut self.digits {
            carried += i128::from(*digit) * i128::from(factor);
            *digit = (carried & 0xffff_ffff) as i64;
            carried >>= BITS;
        }
        while carried != 0 && carried != -1 {
            self.digits.push((carried & 0xffff_ffff) as i64);
            carried >>= BITS;
        }
        if carried == -1 {
            self.digits.push(-1);
        }
    }

    /// Subtracts the square of another sum.
    pub fn subtract_square(&mut self, other: &Self) {
        let mut other = other.clone();
        let _ = other.make_positive();
        for (n, a) in other.digits.iter().enumerate() {
            let (first, digits) = (2 * other.first + n as i32, other.digits.clone());
            let mut row = Self { first, digits, additions: 0 };
            row.multiply(*a as u64);
            row.digits.iter_mut().for_each(|digit| *digit = -*digit);
            self.merge(&row);
        }
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> u64 {
        (self.digits.capacity() * size_of::<i64>()) as u64
    }

    /// Makes room for a number of digits from a place on.
    fn cover(&mut self, place: i32, count: usize) {
        if self.digits.is_empty() {
            self.first = place;
        }
        if place < self.first {
            let missing = (self.first - place) as usize;
            self.digits.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = place;
        }
        let end = (place - self.first) as usize + count;
        self.digits.resize(self.digits.len().max(end), 0);
    }

    fn count_addition(&mut self) {
        self.additions += 1;
        if self.additions >= ADDITIONS_MAX {
            self.carry();
        }
    }

    /// Brings all digits but the last into the range of 0 to 2^32 - 1; the last has the sign.
    fn carry(&mut self) {
        self.additions = 0;
        let mut carried = 0;
        for digit in &mut self.digits {
            let sum = *digit + carried;
            carried = sum >> BITS;
            *digit = sum & 0xffff_ffff;
        }
        match self.digits.last_mut() {
            Some(last) if carried == -1 => *last -= 1 << BITS,
            _ if carried != 0 => self.digits.push(carried),
            _ => {}
        }
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
    }

    /// Replaces the number by its absolute value, with all digits from 0 to 2^32 - 1; returns whether it was
    /// negative.
    fn make_positive(&mut self) -> bool {
        self.carry();
        let negative = self.digits.last().is_some_and(|last| *last < 0);
        if negative {
            self.digits.iter_mut().for_each(|digit| *digit = -*digit);
            self.carry();
        }
        negative
    }

    /// The nearest float, infinite if the number is too large for one.
    pub fn rounded(&self) -> f64 {
        let (mantissa, exponent) = self.round(LOWEST);
        power_of_two(mantissa, exponent)
    }

    /// The nearest number of the form `mantissa * 2^exponent` whose mantissa is a float of 53 bits.
    pub fn scaled(&self) -> (f64, i32) {
        self.round(i32::MIN / 2)
    }

    /// Rounds to 53 bits, and to multiples of `2^lowest`.
    fn round(&self, lowest: i32) -> (f64, i32) {
        let mut number = self.clone();
        let negative = number.make_positive();
        let count = number.digits.len();
        let from = count.saturating_sub(4);
        let top = number.digits[from..].iter().rev().fold(0u128, |top, digit| top << BITS | *digit as u128);
        let rest = number.digits[..from].iter().any(|digit| *digit != 0);
        let place = (number.first + from as i32) * BITS;
        let bits = 128 - top.leading_zeros() as i32;
        let cut = (bits - 53).max(lowest.saturating_sub(place)).max(0);
        let mantissa = match cut {
            0 => top,
            129.. => 0,
            cut => {
                let kept = if cut == 128 { 0 } else { top >> cut };
                let half = 1u128 << (cut - 1);
                let lost = top & (half | (half - 1));
                let up = lost > half || lost == half && (rest || kept & 1 == 1);
                kept + u128::from(up)
            }
        };
        let mantissa = mantissa as f64;
        (if negative { -mantissa } else { mantissa }, place + cut)
    }

    /// The place of the first digit and the digits, for another process.
    pub fn to_digits(mut self) -> (i32, Vec<i64>) {
        self.carry();
        (self.first, self.digits)
    }

    /// The number with these digits; `None` if no sum of floats and squares has them.
    pub fn from_digits(first: i32, digits: Vec<i64>) -> Option<Self> {
        let is_carried = |digit: &i64| (0..1 << BITS).contains(digit);
        let (last, others) = digits.split_last()?;
        let fits = digits.len() <= DIGITS_MAX
            && (FIRST_MIN..=FIRST_MIN + DIGITS_MAX as i32).contains(&first)
            && others.iter().all(is_carried)
            && (-(1 << BITS)..1 << BITS).contains(last);
        fits.then_some(Self { first, digits, additions: 0 })
    }
}

/// `value * 2^exponent`, rounded once.
pub(super) fn power_of_two(value: f64, exponent: i32) -> f64 {
    let (mut value, mut exponent) = (value, exponent);
    while exponent > 1000 && value.is_finite() && value != 0.0 {
        (value, exponent) = (value * 2f64.powi(1000), exponent - 1000);
    }
    if exponent >= -1000 {
        return value * 2f64.powi(exponent.min(1000));
    }
    // A product below the normal numbers is rounded, so it is the last one.
    value * 2f64.powi((exponent + 900).max(-1000)) * 2f64.powi(-900)
}

//! The count, the sum and the sum of squares of some numbers: what mean and variance are made of.

use super::{ExactSum, power_of_two};

/// The exact moments of some numbers.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    count: u64,
    sum: ExactSum,
    /// A square has twice the bits of a number, so its sum has one float more.
    squares: ExactSum<3>,
}

/// The square of a number between these bounds, and its rounding error, are normal numbers or zero.
const SQUARED_MIN: f64 = f64::from_bits((1023 - 400) << 52);
const SQUARED_MAX: f64 = f64::from_bits((1023 + 400) << 52);

/// The square of a number and its rounding error (Dekker's product).
fn square(value: f64) -> (f64, f64) {
    const SPLIT: f64 = ((1 << 27) + 1) as f64;
    let scaled = value * SPLIT;
    let high = scaled - (scaled - value);
    let low = value - high;
    let square = value * value;
    (square, low * low - ((square - high * high) - 2.0 * high * low))
}

impl Moments {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum.add(value);
        if (SQUARED_MIN..SQUARED_MAX).contains(&value.abs()) || value == 0.0 {
            let (square, lost) = square(value);
            self.squares.add(square);
            self.squares.add(lost);
        } else if value.is_finite() {
            self.squares.add_square(value);
        }
    }

    /// Adds other moments.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    /// Number of numbers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The variance of the population; NaN without numbers, or if a number is not finite.
    pub fn variance(&self) -> f64 {
        if !self.sum.is_finite() || self.count == 0 {
            return f64::NAN;
        }
        // count * squares - sum * sum, which is count * count times the variance
        let mut rest = self.squares.widened();
        rest.multiply(self.count);
        rest.subtract_square(&self.sum.widened());
        let (mantissa, exponent) = rest.scaled();
        let count = self.count as f64;
        power_of_two(mantissa / (count * count), exponent)
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> u64 {
        self.sum.heap_bytes() + self.squares.heap_bytes()
    }

    /// The parts, for another process.
    pub fn parts(&self) -> (u64, &ExactSum, &ExactSum<3>) {
        (self.count, &self.sum, &self.squares)
    }

    /// The moments with these parts.
    pub fn from_parts(count: u64, sum: ExactSum, squares: ExactSum<3>) -> Self {
        Self { count, sum, squares }
    }
}

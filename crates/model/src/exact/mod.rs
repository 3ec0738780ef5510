//! Sums of floats that do not depend on the order of their terms.
//!
//! A query adds numbers of series that several threads, and later several nodes, read in any order. A plain
//! sum would have other last bits each time. These sums are exact: they are rounded once, when they are read.
//!
//! An [`ExactSum`] consists of a few floats whose exact sum is the number. Each addition finds its rounding
//! error with Knuth's TwoSum and adds it to the next float. If the last float cannot hold it, the sum becomes
//! a [`Wide`] integer. Two floats are enough for a thousand numbers that differ by a factor of up to 2^30.
//!
//! Invariants: the result is a function of the set of terms. It is NaN if a term is NaN or both infinities
//! are terms, infinite if one infinity is, and otherwise the exact sum rounded to the nearest float.

mod columns;
mod moments;
#[cfg(test)]
mod tests;
mod wide;

pub use columns::{ExactSums, RUN};
pub use moments::Moments;
use wide::power_of_two;
pub use wide::{DIGITS_MAX, FIRST_MIN, Wide};

/// The sum of two floats and its rounding error.
#[inline]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    let of_a = sum - of_b;
    (sum, (a - of_a) + (b - of_b))
}

/// Adds a term to floats whose sum is exact. Returns whether they can hold the new sum; the floats are
/// changed only then.
#[inline]
fn add_to<const K: usize>(parts: &mut [f64; K], term: f64) -> bool {
    let (mut next, mut rest) = (*parts, term);
    for part in &mut next {
        (*part, rest) = two_sum(*part, rest);
    }
    if rest == 0.0 {
        *parts = next;
        return true;
    }
    // The floats may overlap: without that, the last one may have room.
    for n in 1..K {
        (next[n - 1], next[n]) = two_sum(next[n - 1], next[n]);
    }
    (next[K - 1], rest) = two_sum(next[K - 1], rest);
    let fits = rest == 0.0;
    if fits {
        *parts = next;
    }
    fits
}

/// An exact sum of `K` floats, or of a wide integer if they are not enough.
#[derive(Clone, Debug)]
pub struct ExactSum<const K: usize = 2> {
    /// The exact sum of the finite terms is the sum of these. The first one is not finite if a term was not.
    parts: [f64; K],
    /// The part of the sum that the floats cannot hold.
    wide: Option<Box<Wide>>,
}

impl<const K: usize> Default for ExactSum<K> {
    fn default() -> Self {
        Self { parts: [0.0; K], wide: None }
    }
}

impl<const K: usize> ExactSum<K> {
    /// Adds a term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        if !add_to(&mut self.parts, term) {
            self.add_slowly(term);
        }
    }

    #[cold]
    fn add_slowly(&mut self, term: f64) {
        let own = self.parts[0];
        if !own.is_finite() || !term.is_finite() {
            *self = Self::default();
            self.parts[0] = match (own.is_finite(), term.is_finite()) {
                (true, _) => term,
                (false, true) => own,
                (false, false) => own + term,
            };
            return;
        }
        // The floats keep taking what fits into them, the wide integer takes the rest.
        let wide = self.wide.get_or_insert_default();
        for part in &mut self.parts {
            wide.add(std::mem::take(part));
        }
        wide.add(term);
    }

    /// Adds the square of a finite number.
    fn add_square(&mut self, value: f64) {
        self.wide.get_or_insert_default().add_square(value);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        other.parts.iter().for_each(|part| self.add(*part));
        if let Some(wide) = &other.wide
            && self.parts[0].is_finite()
        {
            self.wide.get_or_insert_default().merge(wide);
        }
    }

    /// Whether all terms are finite.
    pub fn is_finite(&self) -> bool {
        self.parts[0].is_finite()
    }

    /// The sum as a wide integer, if all terms are finite.
    fn widened(&self) -> Wide {
        let mut wide = self.wide.as_deref().cloned().unwrap_or_default();
        self.parts.iter().for_each(|part| wide.add(*part));
        wide
    }

    /// The sum, rounded to the nearest float.
    pub fn value(&self) -> f64 {
        match (self.parts.as_slice(), &self.wide) {
            ([first, ..], _) if first.is_nan() => f64::NAN,
            ([first, ..], _) if first.is_infinite() => *first,
            ([high, low], None) => high + low,
            _ => self.widened().rounded(),
        }
    }

    /// The sum divided by the number of terms; finite even if the sum is too large for a float.
    pub fn mean(&self, count: f64) -> f64 {
        let sum = self.value();
        if sum.is_finite() || !self.is_finite() {
            return sum / count;
        }
        let (mantissa, exponent) = self.widened().scaled();
        power_of_two(mantissa / count, exponent)
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> u64 {
        self.wide.as_ref().map_or(0, |wide| size_of::<Wide>() as u64 + wide.heap_bytes())
    }

    /// The floats and the wide integer, for another process.
    pub fn parts(&self) -> (&[f64; K], Option<&Wide>) {
        (&self.parts, self.wide.as_deref())
    }

    /// The sum of floats and a wide integer.
    pub fn from_parts(parts: [f64; K], wide: Option<Wide>) -> Self {
        if parts.iter().all(|part| part.is_finite()) {
            return Self { parts, wide: wide.map(Box::new) };
        }
        let mut sum = Self::default();
        parts.into_iter().for_each(|part| sum.add(part));
        sum
    }
}

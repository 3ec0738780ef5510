//! The discrete Fourier transform for any length, in O(n log n).
//!
//! A length that is not a power of two is computed as a convolution whose length is (Bluestein's
//! algorithm).

use std::f64::consts::PI;
use std::ops::{Add, Mul, Sub};

use sandur_memory::job::{reserve_exactly, spend};

use crate::error::Result;

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) real: f64,
    pub(super) imaginary: f64,
}

impl Complex {
    /// The number with this absolute value and angle.
    pub(super) fn polar(length: f64, angle: f64) -> Self {
        Self { real: length * angle.cos(), imaginary: length * angle.sin() }
    }

    /// The absolute value.
    pub(super) fn length(self) -> f64 {
        self.real.hypot(self.imaginary)
    }

    /// The angle, in radians.
    pub(super) fn angle(self) -> f64 {
        self.imaginary.atan2(self.real)
    }

    fn conjugate(self) -> Self {
        Self { imaginary: -self.imaginary, ..self }
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { real: self.real + other.real, imaginary: self.imaginary + other.imaginary }
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { real: self.real - other.real, imaginary: self.imaginary - other.imaginary }
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self {
            real: self.real * other.real - self.imaginary * other.imaginary,
            imaginary: self.real * other.imaginary + self.imaginary * other.real,
        }
    }
}

/// The discrete Fourier transform of the values.
pub(super) fn transform(values: &[Complex]) -> Result<Vec<Complex>> {
    let count = values.len();
    if count <= 1 {
        return Ok(values.to_vec());
    }
    let length = if count.is_power_of_two() { count } else { (2 * count - 1).next_power_of_two() };
    // The input, and for lengths that are no power of two both operands of the convolution.
    let _held = reserve_exactly(3 * 16 * length as u64)?;
    spend(length.saturating_mul(3 * length.ilog2() as usize))?;
    if count.is_power_of_two() {
        let mut values = values.to_vec();
        transform_power_of_two(&mut values);
        return Ok(values);
    }
    // Squares modulo twice the length keep the angles exact.
    let chirp = |n: usize| {
        let square = (n as u128 * n as u128 % (2 * count as u128)) as f64;
        Complex::polar(1.0, -PI * square / count as f64)
    };
    let mut first = vec![Complex::default(); length];
    let mut second = vec![Complex::default(); length];
    for (place, value) in values.iter().enumerate() {
        first[place] = *value * chirp(place);
        second[place] = chirp(place).conjugate();
        second[(length - place) % length] = chirp(place).conjugate();
    }
    transform_power_of_two(&mut first);
    transform_power_of_two(&mut second);
    first.iter_mut().zip(&second).for_each(|(a, b)| *a = (*a * *b).conjugate());
    // The inverse transform is the conjugate of the transform of the conjugates.
    transform_power_of_two(&mut first);
    let scale = 1.0 / length as f64;
    let scaled = |value: Complex| Complex { real: value.real * scale, imaginary: -value.imaginary * scale };
    Ok((0..count).map(|place| scaled(first[place]) * chirp(place)).collect())
}

/// The inverse transform.
pub(super) fn inverse(frequencies: &[Complex]) -> Result<Vec<Complex>> {
    let conjugates: Vec<Complex> = frequencies.iter().map(|value| value.conjugate()).collect();
    let scale = 1.0 / frequencies.len().max(1) as f64;
    let scaled = |value: Complex| Complex { real: value.real * scale, imaginary: -value.imaginary * scale };
    Ok(transform(&conjugates)?.into_iter().map(scaled).collect())
}

fn transform_power_of_two(values: &mut [Complex]) {
    let count = values.len();
    let bits = count.trailing_zeros();
    for place in 0..count {
        let other = place.reverse_bits() >> (usize::BITS - bits);
        if place < other {
            values.swap(place, other);
        }
    }
    let mut half = 1;
    while half < count {
        let turns: Vec<Complex> =
            (0..half).map(|n| Complex::polar(1.0, -PI * n as f64 / half as f64)).collect();
        for part in values.chunks_exact_mut(2 * half) {
            let (low, high) = part.split_at_mut(half);
            for ((a, b), turn) in low.iter_mut().zip(high).zip(&turns) {
                let turned = *b * *turn;
                (*a, *b) = (*a + turned, *a - turned);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_of_any_length_equals_its_definition_and_has_an_inverse() {
        for count in [1, 2, 3, 5, 8, 12, 31, 64, 100] {
            let value = |n: usize| Complex { real: (n * 7 % 11) as f64, imaginary: (n % 3) as f64 };
            let values: Vec<Complex> = (0..count).map(value).collect();
            let found = transform(&values).unwrap();
            for (k, found) in found.iter().enumerate() {
                let turn = |n: usize| Complex::polar(1.0, -2.0 * PI * (k * n % count) as f64 / count as f64);
                let terms = values.iter().enumerate().map(|(n, value)| *value * turn(n));
                let expected = terms.fold(Complex::default(), |sum, term| sum + term);
                assert!((*found - expected).length() < 1e-9, "{count} {k}");
            }
            let back = inverse(&found).unwrap();
            assert!(back.iter().zip(&values).all(|(a, b)| (*a - *b).length() < 1e-9), "{count}");
        }
        assert!(transform(&[]).unwrap().is_empty());
    }
}

//! Weights of nodes, and the score of a node for a slot.
//!
//! Only operations that IEEE 754 defines exactly are used, so that all machines compute the same scores: the
//! logarithm of the standard library may differ between platforms in the last bit.

use std::f64::consts::{LN_2, SQRT_2};

/// A node counts as at least this part (1/8) of the largest one. Merges need processors, which do not grow
/// with the cache.
const LEAST_PART: u64 = 8;

/// Returns the weights of nodes with these sizes of caches, in the same order. Small differences of size
/// (below 1/4) make no difference, so that nodes of one kind count the same.
pub(super) fn weights(cache_bytes: &[u64]) -> Vec<u64> {
    let rounded: Vec<u64> = cache_bytes.iter().map(|bytes| three_bits(*bytes)).collect();
    let most = rounded.iter().copied().max().unwrap_or(0).max(LEAST_PART);
    rounded.into_iter().map(|bytes| bytes.max(most / LEAST_PART)).collect()
}

/// Keeps the three most significant bits.
fn three_bits(bytes: u64) -> u64 {
    let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(3);
    bytes >> shift << shift
}

/// The score of a node of this weight whose hash for a slot is `hash`. The node with the highest score wins;
/// it wins in proportion to its weight.
pub(super) fn score(weight: u64, hash: u64) -> f64 {
    weight as f64 / -ln(uniform(hash))
}

/// Whether [`score`] may be more than `least`. "No" is certain, and costs no logarithm: `-ln x` is at least
/// `1 - x`, and the error of either is far below the margin.
pub(super) fn may_exceed(least: f64, weight: u64, hash: u64) -> bool {
    const MARGIN: f64 = 1.0 + 1e-9;
    weight as f64 * MARGIN > least * (1.0 - uniform(hash))
}

/// An odd multiple of 2^-53: neither 0 nor 1.
fn uniform(hash: u64) -> f64 {
    ((hash >> 12 << 1) + 1) as f64 / (1u64 << 53) as f64
}

/// The natural logarithm of a normal number between 0 and 1.
fn ln(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    const EXPONENT_BIAS: i64 = 1_023;
    /// 1/19, 1/17 .. 1/1.
    const COEFFICIENTS: [f64; 10] = {
        let mut coefficients = [1.0; 10];
        let mut n = 0;
        while n < coefficients.len() {
            coefficients[n] = 1.0 / (19 - 2 * n) as f64;
            n += 1;
        }
        coefficients
    };
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as i64 - EXPONENT_BIAS;
    let one = (EXPONENT_BIAS as u64) << MANTISSA_BITS;
    let mut mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | one);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 (s + s^3/3 + s^5/5 + ..) with s = (m - 1) / (m + 1), at most 0.172: ten terms suffice.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for coefficient in COEFFICIENTS {
        sum = sum * square + coefficient;
    }
    exponent as f64 * LN_2 + 2.0 * s * sum
}

/// Mixes a node's hash with a slot (the finalizer of SplitMix64).
pub(super) fn mixed(node: u64, slot: usize) -> u64 {
    let mut z = node.wrapping_add((slot as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_library_but_for_the_last_bits() {
        for n in 1..20_000u64 {
            let x = (2 * n - 1) as f64 / 40_000.0;
            let (found, expected) = (ln(x), x.ln());
            assert!((found - expected).abs() <= 1e-13 * expected.abs().max(1e-3), "{x}: {found} {expected}");
        }
        assert!(score(1, 0) > 0.0 && score(1, u64::MAX).is_finite());
    }

    #[test]
    fn no_score_exceeds_what_was_ruled_out() {
        let mut ruled_out = 0;
        for n in 0..20_000 {
            let hashes =
                [mixed(n, 1), mixed(n, 2) | u64::MAX << (n % 64), mixed(n, 3) >> (n % 64), 0, u64::MAX];
            for (hash, weight) in hashes.into_iter().flat_map(|hash| [(hash, 1), (hash, n << 40 | 1)]) {
                let (found, other) = (score(weight, hash), score(1 << (n % 50), mixed(n, 4)));
                assert!(
                    may_exceed(found.next_down(), weight, hash) && may_exceed(0.0, weight, hash),
                    "{hash}"
                );
                assert!(found <= other || may_exceed(other, weight, hash), "{hash} {weight}");
                ruled_out += u64::from(!may_exceed(other, weight, hash));
            }
        }
        assert!(ruled_out > 20_000, "{ruled_out}");
    }

    #[test]
    fn weights_differ_only_for_sizes_that_differ_much() {
        let gib = 1u64 << 30;
        assert_eq!(weights(&[100 * gib, 110 * gib]), [96 * gib, 96 * gib]);
        assert_eq!(weights(&[128 * gib, 256 * gib, 0]), [128 * gib, 256 * gib, 32 * gib]);
        assert_eq!(weights(&[0, 0]), [1, 1]);
        assert_eq!(weights(&[]), [] as [u64; 0]);
        assert_eq!(weights(&[u64::MAX, 1]), [7 << 61, 7 << 58]);
    }
}

//! Functions of one float, and of a float and scalars.

/// The larger of two floats by Go's rules: NaN wins, except against positive infinity.
pub fn max(a: f64, b: f64) -> f64 {
    match (a, b) {
        (f64::INFINITY, _) | (_, f64::INFINITY) => f64::INFINITY,
        (a, b) if a.is_nan() || b.is_nan() => f64::NAN,
        (a, b) if a == 0.0 && b == 0.0 => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        (a, b) => {
            if a > b {
                a
            } else {
                b
            }
        }
    }
}

/// The smaller of two floats by Go's rules: NaN wins, except against negative infinity.
pub fn min(a: f64, b: f64) -> f64 {
    match (a, b) {
        (f64::NEG_INFINITY, _) | (_, f64::NEG_INFINITY) => f64::NEG_INFINITY,
        (a, b) if a.is_nan() || b.is_nan() => f64::NAN,
        (a, b) if a == 0.0 && b == 0.0 => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        (a, b) => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

pub fn sign(value: f64) -> f64 {
    match value {
        v if v < 0.0 => -1.0,
        v if v > 0.0 => 1.0,
        v => v,
    }
}

/// The hyperbolic sine. As in Go, for large values it is half of the exponential, and overflows with it.
pub fn sinh(value: f64) -> f64 {
    if value.abs() > 21.0 { (value.abs().exp() * 0.5).copysign(value) } else { value.sinh() }
}

/// The hyperbolic cosine, with the same overflow.
pub fn cosh(value: f64) -> f64 {
    if value.abs() > 21.0 { value.abs().exp() * 0.5 } else { value.cosh() }
}

pub fn radians(value: f64) -> f64 {
    value * (std::f64::consts::PI / 180.0)
}

pub fn degrees(value: f64) -> f64 {
    value * (180.0 / std::f64::consts::PI)
}

pub fn clamp(value: f64, bounds: &[f64]) -> Option<f64> {
    let (least, most) = (bounds[0], bounds[1]);
    // NaN compares as not less.
    if most < least { None } else { Some(max(least, min(most, value))) }
}

pub fn clamp_max(value: f64, bounds: &[f64]) -> Option<f64> {
    clamp(value, &[f64::NEG_INFINITY, bounds[0]])
}

pub fn clamp_min(value: f64, bounds: &[f64]) -> Option<f64> {
    clamp(value, &[bounds[0], f64::INFINITY])
}

/// Rounds to the nearest multiple; ties round up.
pub fn round(value: f64, nearest: &[f64]) -> Option<f64> {
    let inverse = 1.0 / nearest.first().copied().unwrap_or(1.0);
    Some((value * inverse + 0.5).floor() / inverse)
}

/// The decimal logarithm computed from the natural one, as in Go. The logarithm of a power of ten may be
/// just below the integer, which `floor` shows.
pub fn log10(value: f64) -> f64 {
    value.ln() * std::f64::consts::LOG10_E
}

/// The binary logarithm computed from the natural one of the fraction, as in Go: exact for powers of two.
pub fn log2(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return value.ln();
    }
    let (fraction, exponent) = halves(value);
    match fraction {
        0.5 => f64::from(exponent - 1),
        fraction => fraction.ln() * std::f64::consts::LOG2_E + f64::from(exponent),
    }
}

/// Splits a positive finite number into a fraction in `0.5..1` and an exponent of two.
fn halves(value: f64) -> (f64, i32) {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const EXPONENT_OF_HALF: u64 = 1022;
    let scaled = if value < f64::MIN_POSITIVE { FRACTION_BITS as i32 } else { 0 };
    let bits = (value * f64::from(scaled).exp2()).to_bits();
    let exponent = (bits >> FRACTION_BITS) as i32 - EXPONENT_OF_HALF as i32 - scaled;
    let fraction = bits & ((1 << FRACTION_BITS) - 1) | EXPONENT_OF_HALF << FRACTION_BITS;
    (f64::from_bits(fraction), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperbolic_functions_overflow_at_the_same_values_as_in_go() {
        for (value, sine, cosine) in [
            (0.0, 0.0, 1.0),
            (1.0, 1.0f64.sinh(), 1.0f64.cosh()),
            (700.0, 700f64.exp() * 0.5, 700f64.exp() * 0.5),
            (710.0, f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!((sinh(value), sinh(-value)), (sine, -sine), "{value}");
            assert_eq!((cosh(value), cosh(-value)), (cosine, cosine), "{value}");
        }
        assert!(sinh(f64::NAN).is_nan() && cosh(f64::NAN).is_nan());
    }

    #[test]
    fn conversions_of_angles_do_not_overflow_in_between() {
        assert_eq!(radians(180.0), std::f64::consts::PI);
        assert_eq!(degrees(std::f64::consts::PI), 180.0);
        assert!(radians(1e308).is_finite() && degrees(1e306).is_finite());
    }

    #[test]
    fn extremes_follow_go() {
        assert!(max(f64::NAN, 1.0).is_nan() && min(1.0, f64::NAN).is_nan());
        assert_eq!(max(f64::NAN, f64::INFINITY), f64::INFINITY);
        assert_eq!(min(f64::NEG_INFINITY, f64::NAN), f64::NEG_INFINITY);
        assert!(min(0.0, -0.0).is_sign_negative() && max(-0.0, 0.0).is_sign_positive());
        assert_eq!((clamp(5.0, &[0.0, 3.0]), clamp(5.0, &[3.0, 0.0])), (Some(3.0), None));
        assert_eq!(
            (round(2.5, &[]), round(-2.5, &[]), round(7.0, &[5.0])),
            (Some(3.0), Some(-2.0), Some(5.0))
        );
        assert!(sign(f64::NAN).is_nan());
    }

    #[test]
    fn logarithms_follow_go() {
        assert_eq!((log10(1000.0), log10(1e15)), (3.0, 14.999_999_999_999_998));
        for power in -1074..1024 {
            assert_eq!(log2(f64::from(power).exp2()), f64::from(power));
        }
        let exact = [3.0, 0.3, 1e-310, 1e300];
        assert!(exact.iter().all(|number: &f64| (log2(*number) - number.log2()).abs() <= 1e-12));
        assert_eq!((log2(0.0), log10(0.0)), (f64::NEG_INFINITY, f64::NEG_INFINITY));
        assert_eq!((log2(f64::INFINITY), log10(f64::INFINITY)), (f64::INFINITY, f64::INFINITY));
        assert!([-1.0, f64::NAN, f64::NEG_INFINITY].iter().all(|n| log2(*n).is_nan() && log10(*n).is_nan()));
    }
}

//! Summation that compensates for rounding errors (Kahan's algorithm with Neumaier's improvement).

/// Adds `term`; returns the new sum and compensation. Once the sum is infinite, the compensation is 0.
#[inline]
#[must_use]
pub fn kahan_add(term: f64, sum: f64, compensation: f64) -> (f64, f64) {
    let total = sum + term;
    if total.is_infinite() {
        return (total, 0.0);
    }
    let lost = if sum.abs() >= term.abs() { (sum - total) + term } else { (term - total) + sum };
    (total, compensation + lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_are_not_lost_among_large_ones() {
        let terms = [1.0, 1e100, 1.0, -1e100];
        let (sum, lost) = terms.iter().fold((0.0, 0.0), |(sum, c), term| kahan_add(*term, sum, c));
        assert_eq!(sum + lost, 2.0);
        let (sum, lost) = kahan_add(f64::MAX, f64::MAX, 3.0);
        assert!(sum.is_infinite() && lost == 0.0);
    }
}

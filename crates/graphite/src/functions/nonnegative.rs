//! The increase of a counter with optional limits at which it wraps around.

/// The increase from the previous value, and the value that the next one is compared with.
pub(super) fn nonnegative_delta(
    value: Option<f64>,
    before: Option<f64>,
    most: Option<f64>,
    least: Option<f64>,
) -> (Option<f64>, Option<f64>) {
    let fits =
        |value: &f64| !most.is_some_and(|most| *value > most) && !least.is_some_and(|least| *value < least);
    let Some(value) = value.filter(fits) else { return (None, None) };
    let Some(before) = before else { return (None, Some(value)) };
    let delta = match (most, least) {
        _ if value >= before => Some(value - before),
        (Some(most), _) => Some(most + 1.0 + value - before - least.unwrap_or(0.0)),
        (None, Some(least)) => Some(value - least),
        (None, None) => None,
    };
    (delta, Some(value))
}

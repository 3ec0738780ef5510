//! Ranks fields by how much the shares of their values differ inside and outside of the box.

use super::answer::{FieldDifference, FieldOrigin, Sides, ValueShare};
use super::counts::{Table, Values};

/// Standard deviations beyond which a difference of shares is regarded as real.
const DEVIATIONS: f64 = 3.0;
/// The probability of a larger difference than [`DEVIATIONS`], on one side.
const UNLIKELY: f64 = 0.00135;
/// Up to this many rows the probability is computed by the binomial distribution.
const FEW_ROWS: u64 = 100;
/// The most values of a field in an answer.
const VALUES_SHOWN: usize = 20;

/// The fields with a difference that chance does not explain, the largest difference first; then the others
/// by name. `weight` is the number of rows that a counted row stands for.
pub fn ranked(table: Table, weight: u64) -> Vec<FieldDifference> {
    let rows = table.rows;
    let mut fields: Vec<FieldDifference> = table
        .fields
        .into_iter()
        .map(|((origin, name), values)| difference((origin, name.into_string()), values, rows, weight))
        .collect();
    fields.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| (&a.name, a.origin).cmp(&(&b.name, b.origin)))
    });
    fields
}

fn difference(
    (origin, name): (FieldOrigin, String),
    values: Values,
    rows: Sides,
    weight: u64,
) -> FieldDifference {
    let known = values.rows();
    let missing = [rows[0].saturating_sub(known[0]), rows[1].saturating_sub(known[1])];
    let number = values.counts.len() as u64;
    // Rows without the field are a value, too.
    let none = (missing != [0, 0]).then_some((None, missing));
    let all = values.counts.into_iter().map(|(value, sides)| (Some(value.into_string()), sides)).chain(none);
    let mut real: Vec<(f64, ValueShare)> = all
        .filter_map(|(value, sides)| {
            let size = real_difference(sides, rows, (weight, number))?;
            Some((size, ValueShare { value, inside: sides[0], outside: sides[1] }))
        })
        .collect();
    real.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.value.cmp(&y.value)));
    let score = real.first().map_or(0.0, |(size, _)| *size);
    let values_left_out = real.len().saturating_sub(VALUES_SHOWN) as u64;
    real.truncate(VALUES_SHOWN);
    let shares = real.into_iter().map(|(_, share)| share).collect();
    let rest_score_max = (0..2).map(|side| share_of(values.rest[side], rows[side])).fold(0.0, f64::max);
    FieldDifference {
        name,
        origin,
        score,
        number,
        rest: values.rest,
        rest_score_max,
        values: shares,
        values_left_out,
    }
}

fn share_of(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// The size of the difference between the shares of a value, if chance is an unlikely reason for it.
fn real_difference(sides: Sides, rows: Sides, (weight, values): (u64, u64)) -> Option<f64> {
    if rows[0] == 0 || rows[1] == 0 {
        return None;
    }
    let [inside, outside] = [rows[0] as f64, rows[1] as f64];
    let size = (sides[0] as f64 / inside - sides[1] as f64 / outside).abs();
    let share = (sides[0] + sides[1]) as f64 / (inside + outside);
    // Of a sample, only the rows that were read are evidence.
    let evidence = weight.max(1) as f64;
    let deviation = (share * (1.0 - share) * (evidence / inside + evidence / outside)).sqrt();
    let is_real =
        deviation > 0.0 && size > DEVIATIONS * deviation && !is_luck(sides, rows, (weight.max(1), values));
    is_real.then_some(size)
}

/// Whether chance explains the rows of a value although the deviation of shares does not. That deviation does
/// not hold for few rows: a value with one row is always on one side. The number of rows of a value that are
/// inside is hypergeometric; the smallest of its three numbers makes the best binomial distribution of it.
fn is_luck(sides: Sides, rows: Sides, (weight, values): (u64, u64)) -> bool {
    let [[inside, outside], [all_inside, all_outside]] = [sides, rows].map(|of| of.map(|n| n / weight));
    let (number, all) = (inside + outside, all_inside + all_outside);
    let (tries, hits, chance) = match number.min(all_inside).min(all_outside) {
        tries if tries == number => (tries, inside, all_inside as f64 / all as f64),
        tries if tries == all_inside => (tries, inside, number as f64 / all as f64),
        tries => (tries, outside, number as f64 / all as f64),
    };
    if tries > FEW_ROWS {
        return false;
    }
    let hits = hits.min(tries);
    let at_least: f64 = (hits..=tries).map(|number| binomial(tries, number, chance)).sum();
    let at_most: f64 = (0..=hits).map(|number| binomial(tries, number, chance)).sum();
    // Of many values, some are unlikely by chance.
    at_least.min(at_most) > UNLIKELY / values.max(1) as f64
}

/// The probability of exactly `number` successes in `tries`.
fn binomial(tries: u64, number: u64, chance: f64) -> f64 {
    let ways: f64 = (0..number).map(|n| (tries - n) as f64 / (n + 1) as f64).product();
    ways * chance.powi(number as i32) * (1.0 - chance).powi((tries - number) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(fields: &[(&str, &[(&str, Sides)])], rows: Sides) -> Table {
        let mut table = Table::default();
        for (name, values) in fields {
            for (value, sides) in *values {
                table.add(FieldOrigin::Label, name, value, *sides);
            }
        }
        table.rows = rows;
        table
    }

    #[test]
    fn the_field_that_differs_most_is_the_first() {
        let found = ranked(
            table(
                &[
                    ("app", &[("x", [100, 1_000])]),
                    ("host", &[("a", [90, 300]), ("b", [10, 700])]),
                    ("zone", &[("p", [60, 500]), ("q", [40, 500])]),
                ],
                [100, 1_000],
            ),
            1,
        );
        let names: Vec<_> = found.iter().map(|field| (field.name.as_str(), field.values.len())).collect();
        assert_eq!(names, [("host", 2), ("app", 0), ("zone", 0)]);
        assert!((found[0].score - 0.6).abs() < 1e-9);
        assert_eq!(found[0].values[0].value.as_deref(), Some("a"));
    }

    #[test]
    fn unique_values_and_empty_sides_are_no_differences() {
        let ids: Vec<(String, Sides)> =
            (0..500).map(|n| (format!("id{n}"), if n < 250 { [1, 0] } else { [0, 1] })).collect();
        let ids: Vec<(&str, Sides)> = ids.iter().map(|(id, sides)| (id.as_str(), *sides)).collect();
        assert!(ranked(table(&[("id", &ids)], [250, 250]), 1)[0].values.is_empty());
        assert!(ranked(table(&[("a", &[("x", [0, 9])])], [0, 9]), 1)[0].values.is_empty());
    }

    #[test]
    fn unique_values_do_not_differ_when_the_box_has_few_rows() {
        let ids: Vec<(String, Sides)> =
            (0..1_000).map(|n| (format!("id{n}"), if n < 10 { [1, 0] } else { [0, 1] })).collect();
        let mut ids: Vec<(&str, Sides)> = ids.iter().map(|(id, sides)| (id.as_str(), *sides)).collect();
        assert!(ranked(table(&[("id", &ids)], [10, 990]), 1)[0].values.is_empty());
        // Two of three rows inside may be chance, four of four are none.
        ids[0].1 = [2, 1];
        assert!(ranked(table(&[("id", &ids)], [11, 991]), 1)[0].values.is_empty());
        ids[0].1 = [4, 0];
        let found = ranked(table(&[("id", &ids)], [13, 990]), 1);
        assert_eq!(found[0].values.iter().map(|v| v.value.as_deref()).collect::<Vec<_>>(), [Some("id0")]);
        // All ten rows inside have the value that a third of all rows have.
        let zones: &[(&str, &[(&str, Sides)])] =
            &[("zone", &[("a", [10, 30]), ("b", [0, 40]), ("c", [0, 40])])];
        let found = ranked(table(zones, [10, 110]), 1);
        assert_eq!(found[0].values[0].value.as_deref(), Some("a"));
        // The same with the sides exchanged, and from a sample.
        let zones: &[(&str, &[(&str, Sides)])] = &[("zone", &[("a", [30, 10]), ("b", [80, 0])])];
        assert_eq!(ranked(table(zones, [110, 10]), 1)[0].values.len(), 2);
        let sampled: &[(&str, &[(&str, Sides)])] = &[("id", &[("a", [7, 0]), ("b", [0, 7])])];
        assert!(ranked(table(sampled, [700, 7_000]), 7)[0].values.is_empty());
        assert!((binomial(4, 2, 0.5) - 0.375).abs() < 1e-12 && binomial(100, 50, 0.5) > 0.07);
    }

    #[test]
    fn rows_without_the_field_are_a_value() {
        let found = ranked(table(&[("error", &[("timeout", [80, 0])])], [100, 1_000]), 1);
        let values: Vec<_> =
            found[0].values.iter().map(|v| (v.value.as_deref(), v.inside, v.outside)).collect();
        assert_eq!(values, [(None, 20, 1_000), (Some("timeout"), 80, 0)]);
    }

    #[test]
    fn a_sample_needs_more_evidence() {
        let fields: &[(&str, &[(&str, Sides)])] = &[("a", &[("x", [60, 400]), ("y", [40, 600])])];
        assert_eq!(ranked(table(fields, [100, 1_000]), 1)[0].values.len(), 2);
        assert!(ranked(table(fields, [100, 1_000]), 10)[0].values.is_empty());
    }
}

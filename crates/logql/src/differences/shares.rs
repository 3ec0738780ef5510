//! Ranks fields by how much the shares of their values differ inside and outside of the box.

use super::answer::{FieldDifference, FieldOrigin, Sides, ValueShare};
use super::counts::{Table, Values};

/// Standard deviations beyond which a difference of shares is regarded as real.
const DEVIATIONS: f64 = 3.0;
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
            let size = real_difference(sides, rows, weight)?;
            Some((size, ValueShare { value, inside: sides[0], outside: sides[1] }))
        })
        .collect();
    real.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.value.cmp(&y.value)));
    let score = real.first().map_or(0.0, |(size, _)| *size);
    let values_left_out = real.len().saturating_sub(VALUES_SHOWN) as u64;
    real.truncate(VALUES_SHOWN);
    let shares = real.into_iter().map(|(_, share)| share).collect();
    FieldDifference { name, origin, score, number, rest: values.rest, values: shares, values_left_out }
}

/// The size of the difference between the shares of a value, if chance is an unlikely reason for it.
fn real_difference(sides: Sides, rows: Sides, weight: u64) -> Option<f64> {
    if rows[0] == 0 || rows[1] == 0 {
        return None;
    }
    let [inside, outside] = [rows[0] as f64, rows[1] as f64];
    let size = (sides[0] as f64 / inside - sides[1] as f64 / outside).abs();
    let share = (sides[0] + sides[1]) as f64 / (inside + outside);
    // Of a sample, only the rows that were read are evidence.
    let evidence = weight.max(1) as f64;
    let deviation = (share * (1.0 - share) * (evidence / inside + evidence / outside)).sqrt();
    (deviation > 0.0 && size > DEVIATIONS * deviation).then_some(size)
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

//! Goal: adding floats in loops over steps gives the same bits as adding them one by one.
//!
//! Method: series with gaps and with extreme numbers are added to a group, and to a plain model of each
//! step.

use proptest::prelude::*;
use sandur_model::histogram::kahan_add;

use super::accumulate::Floats;
use crate::column::Column;
use crate::labels::LabelsId;
use crate::token::Kind;

const EDGES: [f64; 7] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -0.0, 1e300];

fn column(steps: usize) -> impl Strategy<Value = Column> {
    let value = prop_oneof![9 => -1e3..1e3, 1 => prop::sample::select(&EDGES[..])];
    let samples = prop_oneof![
        prop::collection::vec(value.clone().prop_map(Some), steps..=steps),
        prop::collection::vec(prop::option::weighted(0.7, value), steps..=steps)
    ];
    samples.prop_map(move |samples| {
        let mut column = Column::empty(LabelsId::EMPTY, false, steps);
        for (step, value) in samples.into_iter().enumerate() {
            value.into_iter().for_each(|value| column.put(step, value));
        }
        column
    })
}

/// The aggregation of some numbers, by its definition.
fn alone(op: Kind, values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let first = values[0];
    match op {
        Kind::Count => count,
        Kind::Group => 1.0,
        Kind::Sum => {
            let add = |(sum, lost): (f64, f64), value: &f64| kahan_add(*value, sum, lost);
            let (sum, lost) = values[1..].iter().fold((first, 0.0), add);
            sum + lost
        }
        Kind::Max => values.iter().fold(first, |best, v| if best < *v || best.is_nan() { *v } else { best }),
        Kind::Min => values.iter().fold(first, |best, v| if best > *v || best.is_nan() { *v } else { best }),
        Kind::Avg => {
            let (mut sum, mut lost, mut mean, mut running) = (first, 0.0, 0.0, false);
            for (n, value) in values.iter().enumerate().skip(1) {
                let count = (n + 1) as f64;
                if !running {
                    let (total, rest) = kahan_add(*value, sum, lost);
                    if !total.is_infinite() {
                        (sum, lost) = (total, rest);
                        continue;
                    }
                    (running, mean, lost) = (true, sum / (count - 1.0), lost / (count - 1.0));
                }
                let part = (count - 1.0) / count;
                (mean, lost) = kahan_add(value / count, part * mean, part * lost);
            }
            if running { mean + lost } else { sum / count + lost / count }
        }
        _ => {
            let (mut mean, mut squares) = (first, if first.is_finite() { 0.0 } else { f64::NAN });
            for (n, value) in values.iter().enumerate().skip(1) {
                let delta = value - mean;
                mean += delta / (n + 1) as f64;
                squares += delta * (value - mean);
            }
            if op == Kind::Stdvar { squares / count } else { (squares / count).sqrt() }
        }
    }
}

fn bits(value: Option<f64>) -> Option<u64> {
    value.map(|value| if value.is_nan() { f64::NAN } else { value }.to_bits())
}

proptest! {
    #[test]
    fn adding_columns_equals_adding_each_step_to_the_bit(
        columns in prop::sample::select(&[1usize, 63, 64, 130][..])
            .prop_flat_map(|steps| prop::collection::vec(column(steps), 1..8)),
    ) {
        let steps = columns[0].values.len();
        let ops = [Kind::Sum, Kind::Avg, Kind::Min, Kind::Max, Kind::Count, Kind::Group, Kind::Stddev];
        for op in ops.into_iter().chain([Kind::Stdvar]) {
            let mut group = Floats::new(op, steps);
            columns.iter().for_each(|column| group.add(op, column.clone()));
            let found = group.finish(op);
            let mut one_by_one = Floats::new(op, steps);
            for step in 0..steps {
                let values: Vec<f64> =
                    columns.iter().filter(|c| c.has(step)).map(|column| column.values[step]).collect();
                let expected = (!values.is_empty()).then(|| alone(op, &values));
                let found = found.has(step).then(|| found.values[step]);
                prop_assert_eq!(bits(found), bits(expected), "{:?} of {:?}", op, values);
                values.iter().for_each(|value| one_by_one.add_one(op, step, *value));
            }
            if matches!(op, Kind::Sum | Kind::Avg) {
                let one_by_one = one_by_one.finish(op);
                for step in found.steps() {
                    let values = (Some(one_by_one.values[step]), Some(found.values[step]));
                    prop_assert_eq!(bits(values.0), bits(values.1), "{:?} one by one", op);
                }
            }
        }
    }
}

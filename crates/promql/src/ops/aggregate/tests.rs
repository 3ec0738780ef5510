//! Goal: adding floats in loops over steps gives the same bits as adding them one by one, in any order.
//!
//! Method: series with gaps and with extreme numbers are added to a group, in both directions, and to a plain
//! model of each step.

use proptest::prelude::*;
use sandur_model::exact::{ExactSum, Moments};

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
    let (mut sum, mut moments) = (ExactSum::<2>::default(), Moments::default());
    values.iter().for_each(|value| sum.add(*value));
    values.iter().for_each(|value| moments.add(*value));
    let numbers = || values.iter().copied().filter(|value| !value.is_nan());
    match op {
        Kind::Count => values.len() as f64,
        Kind::Group => 1.0,
        Kind::Sum => sum.value(),
        Kind::Avg => sum.mean(values.len() as f64),
        Kind::Max => numbers().max_by(f64::total_cmp).unwrap_or(f64::NAN),
        Kind::Min => numbers().min_by(f64::total_cmp).unwrap_or(f64::NAN),
        Kind::Stdvar => moments.variance(),
        _ => moments.variance().sqrt(),
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
            let mut backwards = Floats::new(op, steps);
            columns.iter().rev().for_each(|column| backwards.add(op, column.clone()));
            let backwards = backwards.finish(op);
            for step in found.steps() {
                let values = (found.values[step], backwards.values[step]);
                prop_assert_eq!(bits(Some(values.0)), bits(Some(values.1)), "{:?} backwards", op);
            }
            let mut one_by_one = Floats::new(op, steps);
            for step in 0..steps {
                let values: Vec<f64> =
                    columns.iter().filter(|c| c.has(step)).map(|column| column.values[step]).collect();
                let expected = (!values.is_empty()).then(|| alone(op, &values));
                let found = found.has(step).then(|| found.values[step]);
                prop_assert_eq!(bits(found), bits(expected), "{:?} of {:?}", op, values);
                values.iter().for_each(|value| one_by_one.add_one(step, *value));
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

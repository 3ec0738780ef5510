//! `randomWalk`: creates a series with a random walk.

use futures_util::FutureExt;

use super::same_steps::same_steps;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "randomWalk",
    aliases: &["randomWalkFunction"],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("name", Kind::Text), optional("step", Kind::Integer).or(Preset::Int(60))],
    doc: "Creates a series with a random walk.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (name, step) = (again.call.text(0)?, again.call.integer(1)?);
    let steps = same_steps(&again.call.scope, step)?;
    let share = again.call.scope.x_files_factor();
    let (start, end) = (again.call.scope.from.epoch, again.call.scope.until.epoch);
    let seed = again.evaluator.random();
    again
        .compute(move || {
            let mut state = seed.to_bits() | 1;
            let mut current = 0.0;
            let walk = (0..steps).map(|_| {
                let before = current;
                // xorshift64* is random enough for this.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                current +=
                    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                Some(before)
            });
            let values = Column::collect(steps, walk)?;
            Ok(vec![Series::new(name, start, end, step, values).with_share(share)])
        })
        .await
}

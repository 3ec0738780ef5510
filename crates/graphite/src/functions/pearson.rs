//! `pearson`: computes the Pearson correlation of two series over a sliding window.

use super::correlation::{correlation, only, window};
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "pearson",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("otherSeries", Kind::SeriesList),
        required("windowSize", Kind::Integer),
    ],
    doc: "Computes the Pearson correlation of two series over a sliding window.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let first = only(call.list(0)?, "pearson")?;
    let second = only(call.list(1)?, "pearson")?;
    let size = window(call.integer(2)?)?;
    let mut values = Column::with_room(first.values.len())?;
    for end in 1..=first.values.len() {
        let value = match end.checked_sub(size) {
            Some(begin) => correlation(&first, &second, begin..end)?,
            None => None,
        };
        values.push(value);
    }
    let name = format!("pearson({},{},{size})", first.name, second.name);
    Ok(vec![first.derived(name, values)])
}

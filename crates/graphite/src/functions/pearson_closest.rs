//! `pearsonClosest`: keeps the `n` series with the strongest Pearson correlation to one series: of either
//! sign (`abs`), positive (`pos`) or negative (`neg`).

use super::correlation::{correlation, only};
use super::keys::take_first;
use crate::aggregation::order;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "pearsonClosest",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("series", Kind::SeriesList),
        required("seriesList", Kind::SeriesList),
        required("n", Kind::Integer),
        optional("direction", Kind::Text).or(Preset::Text("abs")).of(&["abs", "pos", "neg"]),
    ],
    doc: "Keeps the `n` series with the strongest Pearson correlation to one series: of either sign \
          (`abs`), positive (`pos`) or negative (`neg`).",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let reference = only(call.list(0)?, "pearsonClosest")?;
    let (list, n, direction) = (call.list(1)?, call.integer(2)?, call.text(3)?);
    let rank = |coefficient: f64| match direction.as_str() {
        "abs" => Some(coefficient.abs()),
        "pos" => Some(coefficient).filter(|coefficient| *coefficient >= 0.0),
        "neg" => Some(-coefficient).filter(|rank| *rank >= 0.0),
        _ => None,
    };
    if !matches!(direction.as_str(), "abs" | "pos" | "neg") {
        return Err(Error::invalid("direction must be one of: pos, neg, abs"));
    }
    let count = reference.values.len();
    let mut ranked = Vec::new();
    for series in list.into_iter().filter(|series| series.values.len() == count) {
        if let Some(rank) = correlation(&reference, &series, 0..count)?.and_then(rank) {
            ranked.push((rank, series));
        }
    }
    ranked.sort_by(|(a, _), (b, _)| order(*b, *a));
    let ranked: Vec<Series> = ranked.into_iter().map(|(_, series)| series).collect();
    Ok(take_first(ranked, n.max(0)))
}

//! `integralByInterval`: computes the running sum, which restarts at 0 in each interval.

use super::series_of::replace_values;
use crate::attime::parse_offset;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "integralByInterval",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("intervalUnit", Kind::Text)],
    doc: "Computes the running sum, which restarts at 0 in each interval.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, text) = (call.series()?, call.text(1)?);
    let interval = parse_offset(&text)?.abs();
    if interval == 0 {
        return Err(Error::invalid("an interval of 0 seconds: it must be longer"));
    }
    let begin = call.scope.from.wall();
    replace_values(list, |series| {
        let (mut sum, mut time) = (0.0, series.start - begin);
        let sums = series.points().map(|value| {
            if time.div_euclid(interval) != (time - series.step).div_euclid(interval) {
                sum = 0.0;
            }
            time += series.step;
            sum += value.unwrap_or(0.0);
            Some(sum)
        });
        let values = Column::collect(series.values.len(), sums)?;
        series.tags.set("integralByInterval", &text);
        Ok((format!("integralByInterval({},'{text}')", series.name), values))
    })
}

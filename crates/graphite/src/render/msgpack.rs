//! `msgpack`: series as maps.

use super::request::{Format, RenderRequest};
use crate::encoding::msgpack::{self, float, integer, map, none, text};
use crate::error::Result;
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "msgpack",
    content_type: "application/x-msgpack",
    is_json: false,
    bytes: super::request::with_expression,
    write,
};

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    msgpack::list(out, list.len())?;
    for series in list.iter() {
        spend(series.values.len())?;
        map(out, 9)?;
        text(out, "name")?;
        text(out, &series.name)?;
        for (name, number) in [("start", series.start), ("end", series.end), ("step", series.step)] {
            text(out, name)?;
            integer(out, number);
        }
        text(out, "values")?;
        msgpack::list(out, series.points().len())?;
        for value in series.points() {
            match value {
                None => none(out),
                Some(value) if series.values.is_whole() => integer(out, value as i64),
                Some(value) => float(out, value),
            }
        }
        text(out, "pathExpression")?;
        text(out, &series.path_expression)?;
        text(out, "valuesPerPoint")?;
        integer(out, series.values_per_point as i64);
        text(out, "consolidationFunc")?;
        text(out, series.consolidation.name())?;
        text(out, "xFilesFactor")?;
        float(out, series.x_files_factor);
    }
    Ok(())
}

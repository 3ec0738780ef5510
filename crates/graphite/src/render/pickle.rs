//! `pickle`: series as Python dictionaries.

use super::request::{Format, RenderRequest};
use crate::encoding::pickle::{
    begin, begin_dictionary, begin_list, end, end_dictionary, end_list, float, integer, none, text,
};
use crate::error::Result;
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "pickle",
    content_type: "application/pickle",
    is_json: false,
    bytes: super::request::with_expression,
    write,
};

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    begin(out);
    begin_list(out);
    for series in list.iter() {
        spend(series.values.len())?;
        begin_dictionary(out);
        text(out, "name")?;
        text(out, &series.name)?;
        for (name, number) in [("start", series.start), ("end", series.end), ("step", series.step)] {
            text(out, name)?;
            integer(out, number);
        }
        text(out, "values")?;
        begin_list(out);
        for value in series.points() {
            match value {
                None => none(out),
                Some(value) if series.values.is_whole() => integer(out, value as i64),
                Some(value) => float(out, value),
            }
        }
        end_list(out);
        text(out, "pathExpression")?;
        text(out, &series.path_expression)?;
        text(out, "valuesPerPoint")?;
        integer(out, series.values_per_point as i64);
        text(out, "consolidationFunc")?;
        text(out, series.consolidation.name())?;
        text(out, "xFilesFactor")?;
        float(out, series.x_files_factor);
        end_dictionary(out);
    }
    end_list(out);
    end(out);
    Ok(())
}

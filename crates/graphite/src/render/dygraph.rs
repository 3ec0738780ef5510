//! `dygraph`: a row for each time with the values of all series.

use super::raw::shown;
use super::request::{Format, RenderRequest};
use crate::encoding::json::{Layout, quoted};
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "dygraph",
    content_type: "application/json",
    is_json: true,
    bytes: |_, series| super::request::bytes_of(series, 600),
    write,
};

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    let Some(first) = list.first() else {
        out.extend_from_slice(b"{}");
        return Ok(());
    };
    let (start, step) = (first.start, first.step.max(1));
    let count = (first.end.saturating_sub(start).max(0) as u64).div_ceil(step as u64);
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(first.values.len().max(1) * 2);
    if let Some(longer) = list.iter().find(|series| series.points().len() > count) {
        return Err(Error::invalid(format!("{} has more values than the first series", longer.name)));
    }
    let mut lines = vec![Vec::with_capacity(list.len() + 1); count];
    for (place, line) in lines.iter_mut().enumerate() {
        line.push(format!("{}000", start + step * place as i64));
    }
    for series in list.iter() {
        for (line, value) in lines.iter_mut().zip(series.points()) {
            spend(1)?;
            line.push(match value {
                None => "null".to_owned(),
                Some(value) if value.is_nan() => "null".to_owned(),
                Some(f64::INFINITY) => "Infinity".to_owned(),
                Some(f64::NEG_INFINITY) => "-Infinity".to_owned(),
                Some(_) => shown(series, value),
            });
        }
    }
    if lines.iter().any(|line| line.len() != list.len() + 1) {
        return Err(Error::invalid("dygraph needs series with the same times"));
    }
    let layout = Layout::new(false);
    let labels: Vec<String> =
        std::iter::once(quoted("Time")).chain(list.iter().map(|series| quoted(&series.name))).collect();
    let lines: Vec<String> = lines.iter().map(|line| layout.join(('[', ']'), 0, line)).collect();
    let (labels, data) = (layout.join(('[', ']'), 0, &labels), layout.join(('[', ']'), 0, &lines));
    out.extend_from_slice(format!("{{\"labels\" : {labels}, \"data\" : {data}}}").as_bytes());
    Ok(())
}

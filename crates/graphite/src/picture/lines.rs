//! Prepares series for drawing: consolidates them to the columns of the image, stacks them, and reads their
//! options.

use super::colors::Color;
use super::options::{AreaMode, PictureOptions};
use crate::error::Result;
use crate::series::{Drawing, Series};
use sandur_memory::job::spend;

/// A series prepared for drawing.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) values: Vec<Option<f64>>,
    pub(super) color: Color,
    pub(super) width: f64,
    pub(super) dash: Option<f64>,
    /// The opacity of the area down to the axis, if it is filled.
    pub(super) area: Option<f64>,
    /// Whether each value is drawn as a vertical line from the axis to the top.
    pub(super) is_infinite: bool,
    /// Whether it has no name in the legend.
    pub(super) is_invisible: bool,
}

fn option(series: &Series, name: &str) -> Option<f64> {
    let (_, drawing) = series.options.iter().find(|(own, _)| *own == name)?;
    Some(match drawing {
        Drawing::On => 1.0,
        Drawing::Number(number) => number.value(),
    })
}

/// Converts series to lines, in order; no line has more values than `columns`.
pub(super) fn lines(options: &PictureOptions, list: &mut [Series], columns: usize) -> Result<Vec<Line>> {
    let mut totals: Vec<f64> = Vec::new();
    let mut lines = Vec::with_capacity(list.len());
    for (place, series) in list.iter_mut().enumerate() {
        let (count, per_point) = (series.values.len(), series.values_per_point.max(1));
        let wanted = count.div_ceil(columns.max(1));
        series.values_per_point = per_point.max(wanted);
        spend(count)?;
        let null = options.null_as_zero.then_some(0.0);
        let present = |value: Option<f64>| value.filter(|value| value.is_finite()).or(null);
        let mut values: Vec<Option<f64>> = series.points().map(present).collect();
        let is_infinite = option(series, "drawAsInfinite").is_some();
        if options.area_mode == AreaMode::Stacked && !is_infinite {
            stack(&mut totals, &mut values);
        }
        let is_area = match options.area_mode {
            AreaMode::None => false,
            AreaMode::First => place == 0,
            AreaMode::All | AreaMode::Stacked => true,
        };
        let own = series.color.as_deref().and_then(Color::parse);
        let color = own.or(options.colors.get(place % options.colors.len().max(1)).copied());
        let color = color.unwrap_or(options.foreground);
        // An invisible series is drawn in the background colour, to cover earlier ones: the lower bound of
        // `areaBetween`.
        let is_invisible = option(series, "invisible").is_some();
        let color = if is_invisible { options.background } else { color };
        let opacity = option(series, "alpha");
        lines.push(Line {
            name: std::mem::take(&mut series.name),
            start: series.start,
            step: series.step.saturating_mul(series.values_per_point as i64).max(1),
            values,
            color: opacity.map_or(color, |opacity| color.faded(opacity)),
            width: option(series, "lineWidth").unwrap_or(options.line_width).clamp(0.1, 100.0),
            dash: option(series, "dashed").map(|length| length.clamp(0.5, 1_000.0)),
            area: (is_area || option(series, "stacked").is_some())
                .then(|| options.area_opacity.or(opacity).unwrap_or(color.opacity)),
            is_infinite,
            is_invisible,
        });
    }
    Ok(lines)
}

/// Adds the totals of previous series to the values.
fn stack(totals: &mut Vec<f64>, values: &mut [Option<f64>]) {
    if totals.len() < values.len() {
        totals.resize(values.len(), 0.0);
    }
    for (total, value) in totals.iter_mut().zip(values) {
        if let Some(value) = value {
            *total += *value;
            *value = *total;
        }
    }
}

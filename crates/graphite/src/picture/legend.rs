//! The legend: names and colours below the graph.

use super::canvas::{Anchor, Canvas};
use super::colors::Color;
use super::options::PictureOptions;
use crate::error::Result;

/// The legend is hidden for more series, unless the request decides.
const SERIES_MAX: usize = 10;
/// The most columns of a legend.
const COLUMNS_MAX: usize = 20;
/// The average width of a letter, relative to the font size.
pub(super) const LETTER: f64 = 0.6;

/// A name with its colour.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) color: Color,
}

/// The layout of the legend. It takes at most half of the image; names without room are omitted.
pub(super) struct Legend<'a> {
    entries: Vec<Entry<'a>>,
    pub(super) height: f64,
    columns: usize,
    row: f64,
    width: f64,
}

impl<'a> Legend<'a> {
    /// The legend for a number of series, of which `entries` are shown; its height is 0 if it is hidden.
    pub(super) fn of(options: &PictureOptions, entries: Vec<Entry<'a>>, series: usize) -> Self {
        if options.hides_legend.unwrap_or(series > SERIES_MAX) || series == 0 {
            return Self { entries: Vec::new(), height: 0.0, columns: 0, row: 0.0, width: 0.0 };
        }
        let longest = entries.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0) as f64;
        let width = longest * options.font_size * LETTER + options.font_size * 2.0;
        let room = options.width - 2.0 * options.margin;
        let columns = ((room / width) as usize).clamp(1, COLUMNS_MAX);
        let row = options.font_size * 1.4;
        let rows = entries.len().div_ceil(columns) as f64;
        let height = (rows * row + options.font_size).min(options.height / 2.0);
        Self { entries, height, columns, row, width }
    }

    /// Draws the legend at the lower edge of the image, from `left` on if there is room.
    pub(super) fn draw<C: Canvas>(&self, canvas: &mut C, options: &PictureOptions, left: f64) -> Result<()> {
        if self.columns == 0 {
            return Ok(());
        }
        let (size, top) =
            (options.font_size, options.height - options.margin - self.height + options.font_size);
        let rows = (self.height / self.row) as usize;
        let left = left.min(options.margin.max(options.width - options.margin - self.width));
        for (place, entry) in self.entries.iter().take(rows * self.columns).enumerate() {
            let x = left + (place % self.columns) as f64 * self.width;
            let y = top + (place / self.columns) as f64 * self.row;
            canvas.rectangle((x, y), (size * 0.9, size * 0.9), entry.color)?;
            let place = (x + size * 1.3, y + size * 0.85);
            canvas.text(entry.name, place, options.text(Anchor::Start))?;
        }
        Ok(())
    }
}

//! A grid of characters with dots in braille: two columns and four rows of dots per character.

/// The bits of the dots of a character, by column and row.
const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// The character of braille without dots.
const BRAILLE: u32 = 0x2800;

/// Dots of several series.
pub struct Canvas {
    columns: usize,
    rows: usize,
    /// Dots of each character, and the series that was drawn last there.
    cells: Vec<(u8, usize)>,
}

impl Canvas {
    /// An empty grid.
    pub fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, cells: vec![(0, 0); columns * rows] }
    }

    /// The character at a place and its series; `None` if nothing is drawn there.
    pub fn cell(&self, column: usize, row: usize) -> Option<(char, usize)> {
        let (dots, series) = self.cells[row * self.columns + column];
        let character = char::from_u32(BRAILLE + u32::from(dots))?;
        (dots != 0).then_some((character, series))
    }

    /// Draws a line between two places, which are shares of the width and of the height.
    pub fn line(&mut self, series: usize, from: (f64, f64), to: (f64, f64)) {
        let (width, height) = ((2 * self.columns - 1) as f64, (4 * self.rows - 1) as f64);
        let dot = |(across, up): (f64, f64)| ((across * width).round(), ((1.0 - up) * height).round());
        let ((x0, y0), (x1, y1)) = (dot(from), dot(to));
        let steps = (x1 - x0).abs().max((y1 - y0).abs());
        for step in 0..=steps as usize {
            let share = if steps > 0.0 { step as f64 / steps } else { 0.0 };
            self.dot(series, x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
        }
    }

    fn dot(&mut self, series: usize, x: f64, y: f64) {
        let (x, y) = (x.round() as usize, y.round() as usize);
        let cell = &mut self.cells[y / 4 * self.columns + x / 2];
        *cell = (cell.0 | BITS[x % 2][y % 4], series);
    }
}

//! Formats the figures of several runs as a table: the median, with the lowest and highest in
//! parentheses.

use std::fmt::Write;

/// A row: a name and one figure per run.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measured quantity, with its unit.
    pub name: String,
    /// The figures, by run.
    pub figures: Vec<f64>,
}

/// A column of a table: a server and its rows. All columns have the same rows, except those that they
/// lack.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name of the server.
    pub name: String,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Column {
    /// An empty column.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), rows: Vec::new() }
    }

    /// Adds the figure of one run to a row.
    pub fn add(&mut self, row: &str, figure: f64) {
        match self.rows.iter_mut().find(|r| r.name == row) {
            Some(row) => row.figures.push(figure),
            None => self.rows.push(Row { name: row.to_owned(), figures: vec![figure] }),
        }
    }
}

/// Returns the lower median; `None` if there are no figures.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Returns a percentile by nearest rank; 0 if there are no figures.
pub(super) fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns a table in Markdown.
pub fn table(columns: &[Column]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in columns.iter().flat_map(|column| &column.rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let mut text = String::from("| |");
    columns.iter().for_each(|column| {
        let _ = write!(text, " {} |", column.name);
    });
    text.push_str("\n|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    for name in names {
        let _ = write!(text, "\n| {name} |");
        for column in columns {
            let row = column.rows.iter().find(|row| row.name == name);
            let _ = write!(text, " {} |", row.map(|row| spread(&row.figures)).unwrap_or_default());
        }
    }
    text.push('\n');
    text
}

fn spread(figures: &[f64]) -> String {
    let Some(middle) = median(figures) else { return String::new() };
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if figures.len() == 1 {
        return rounded(middle);
    }
    format!("{} ({}..{})", rounded(middle), rounded(low), rounded(high))
}

/// Formats a figure with three significant digits.
fn rounded(figure: f64) -> String {
    match figure.abs() {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        1.0.. => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_medians_and_spreads() {
        let mut ours = Column::new("ours");
        [1234.4, 1200.0, 1300.0].into_iter().for_each(|f| ours.add("wall, s", f));
        ours.add("only ours", 0.1234);
        let mut rival = Column::new("rival");
        rival.add("wall, s", 15.55);
        let expected = "| | ours | rival |\n|---|---|---|\n\
            | wall, s | 1234 (1200..1300) | 15.6 |\n| only ours | 0.123 |  |\n";
        assert_eq!(table(&[ours, rival]), expected);
        assert_eq!(
            (median(&[]), median(&[2.0, 1.0]), median(&[3.0, 1.0, 2.0])),
            (None, Some(1.0), Some(2.0))
        );
    }
}

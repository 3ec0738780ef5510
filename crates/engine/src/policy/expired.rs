//! The series of a block that are past their periods.

use roaring::RoaringBitmap;

/// Why rows are past their period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The period of the tenant is over.
    Tenant,
    /// The period of a rule is over.
    Selector,
    /// The period that the series' labels decide is over.
    Labels,
    /// All periods are over for the block.
    Block,
}

impl Reason {
    pub(crate) const ALL: [Self; 4] = [Self::Tenant, Self::Selector, Self::Labels, Self::Block];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Selector => "selector",
            Self::Labels => "labels",
            Self::Block => "block",
        }
    }
}

/// Numbers of rows by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredRows([u64; Reason::ALL.len()]);

impl ExpiredRows {
    pub(crate) fn add(&mut self, reason: Reason, rows: u64) {
        self.0[reason as usize] += rows;
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().zip(self.0).filter(|(_, rows)| *rows > 0)
    }
}

/// The series of a block that are past their periods.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpiredSeries {
    /// The ordinals of the series.
    pub(crate) series: RoaringBitmap,
    /// The numbers of their rows.
    pub(crate) rows: ExpiredRows,
    /// Whether the block has exemplars or metadata that may have to stay.
    pub(crate) has_annotations: bool,
}

impl ExpiredSeries {
    /// Adds series with their number of rows.
    pub(crate) fn add(&mut self, reason: Reason, series: &RoaringBitmap, rows: u64) {
        self.series |= series;
        self.rows.add(reason, rows);
    }

    /// Whether nothing is left of a block with this number of rows.
    pub(crate) fn is_all(&self, rows: u64) -> bool {
        rows > 0 && self.rows.total() == rows && !self.has_annotations
    }

    /// Whether rewriting a block with this number of rows is worth it: at least a tenth, and at least
    /// one row, is removed.
    pub(crate) fn is_worth_it(&self, rows: u64) -> bool {
        let expired = self.rows.total();
        expired > 0 && expired.saturating_mul(SHARE) >= rows
    }
}

/// At least this fraction of the rows (a tenth) must be past their period.
const SHARE: u64 = 10;

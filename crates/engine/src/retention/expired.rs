//! The series of a block that are past their periods.

use roaring::RoaringBitmap;

/// What says that rows are past their period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The period of the tenant.
    Tenant,
    /// A rule.
    Selector,
    /// The labels of the series.
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
    /// Their ordinals.
    pub(crate) series: RoaringBitmap,
    /// Their rows.
    pub(crate) rows: ExpiredRows,
    /// Whether something stands in the block beside rows that may have to stay.
    pub(crate) has_others_beside: bool,
}

impl ExpiredSeries {
    /// Takes series in that have so many rows.
    pub(crate) fn add(&mut self, reason: Reason, series: &RoaringBitmap, rows: u64) {
        self.series |= series;
        self.rows.add(reason, rows);
    }

    /// Whether nothing of a block with so many rows stays.
    pub(crate) fn is_all(&self, rows: u64) -> bool {
        rows > 0 && self.rows.total() == rows && !self.has_others_beside
    }

    /// Whether the block, which has so many rows, is worth being rewritten without them: a tenth of it, at
    /// least, and something.
    pub(crate) fn is_worth_it(&self, rows: u64) -> bool {
        let expired = self.rows.total();
        expired > 0 && expired.saturating_mul(SHARE) >= rows
    }
}

/// One row of so many must be past its period.
const SHARE: u64 = 10;

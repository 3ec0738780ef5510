//! Finds the streams of a block that are past their periods. Only the footer is needed.

use roaring::RoaringBitmap;
use sandur_format::Error as FormatError;
use sandur_model::Labels;

use super::block::OpenLogs;
use crate::policy::expired::{ExpiredSeries, Reason};
use crate::policy::retention::Expiry;

/// Returns the streams that are past their periods.
pub(super) fn expired(block: &OpenLogs, expiry: &Expiry) -> Result<ExpiredSeries, FormatError> {
    let (table, newest_ns) = (block.footer.streams(), block.meta.max_ts);
    let rows_of = |streams: &RoaringBitmap| streams.iter().map(|stream| table.stats(stream).rows).sum();
    let (mut expired, mut left) = (ExpiredSeries::default(), RoaringBitmap::new());
    left.insert_range(0..table.len() as u32);
    let retention = expiry.retention();
    for rule in retention.rules.iter() {
        let named = block.footer.select(rule.matchers())? & &left;
        left -= &named;
        if expiry.is_over(rule.period_ns(), newest_ns) {
            expired.add(Reason::Selector, &named, rows_of(&named));
        }
    }
    if let Some(of_labels) = &retention.of_labels {
        let period_of = |labels: &Labels| of_labels.period_ns(labels);
        for stream in left.clone() {
            let Some(period_ns) = period_of(&table.labels(stream)) else { continue };
            left.remove(stream);
            if expiry.is_over(period_ns, newest_ns) {
                expired.add(Reason::Labels, &RoaringBitmap::from([stream]), table.stats(stream).rows);
            }
        }
    }
    if expiry.is_over_for_others(newest_ns) {
        expired.add(Reason::Tenant, &left, rows_of(&left));
    }
    Ok(expired)
}

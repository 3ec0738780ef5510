//! Writes the answer of a query of lines in the format before version 1.

use sandur_query::LogRow;
use sandur_service::Cost;

use super::json;
use super::result::{merged_groups, separated};
use super::stats::write_stats;

/// The body of an answer.
pub fn legacy_answer(rows: &[LogRow], cost: &Cost) -> Vec<u8> {
    let mut out = b"{".to_vec();
    write_stats(&mut out, cost);
    out.extend_from_slice(b",\"streams\":[");
    legacy_streams(&mut out, rows);
    out.extend_from_slice(b"]}\n");
    out
}

/// Appends streams, grouped by all labels of a row.
pub fn legacy_streams(out: &mut Vec<u8>, rows: &[LogRow]) {
    separated(out, &merged_groups(rows), |out, (text, _, members)| {
        out.extend_from_slice(b"{\"labels\":");
        json::utf8(out, text);
        out.extend_from_slice(b",\"entries\":[");
        separated(out, members, |out, &n| entry(out, &rows[n]));
        out.extend_from_slice(b"]}");
    });
}

fn entry(out: &mut Vec<u8>, row: &LogRow) {
    // Every timestamp of 64 bits of nanoseconds is within the range of the calendar.
    let instant = jiff::Timestamp::from_nanosecond(i128::from(row.timestamp)).unwrap_or_default();
    json::push(out, format_args!("{{\"ts\":\"{instant}\",\"line\":"));
    json::string(out, &row.line);
    out.push(b'}');
}

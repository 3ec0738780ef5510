//! The order of streams in a block, common to all writers and merges of blocks.
//!
//! Streams of one service are adjacent, because their lines are similar: they compress well together, and
//! a query for a service reads few pages. Within a service, streams of one level are adjacent: queries
//! mostly search the few lines of errors, and then read no page with other lines.

use std::cmp::Ordering;
use std::sync::Arc;

use sandur_model::Labels;

/// Labels that name the service of a stream; the first present one counts.
pub const SERVICE_LABELS: [&str; 6] = ["service_name", "app", "job", "service", "container", "name"];

/// Labels that name the level of a stream's lines; the first present one counts.
pub const LEVEL_LABELS: [&str; 4] = ["level", "severity", "log_level", "lvl"];

/// Returns the first sort keys of a stream: the values of the first present service label and of the
/// first present level label, or empty texts.
pub fn stream_sort_key(labels: &Labels) -> (&str, &str) {
    let first = |names: &[&str]| names.iter().find_map(|name| labels.get(name)).unwrap_or("");
    (first(&SERVICE_LABELS), first(&LEVEL_LABELS))
}

/// Compares by [`stream_sort_key`], then by all labels. Equal only for equal label sets.
pub fn compare_streams(a: &Labels, b: &Labels) -> Ordering {
    stream_sort_key(a).cmp(&stream_sort_key(b)).then_with(|| a.cmp(b))
}

/// Sorts streams in block order and removes duplicates.
pub fn sort_streams(streams: &mut Vec<Arc<Labels>>) {
    streams.sort_unstable_by(|a, b| compare_streams(a, b));
    streams.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_service_are_adjacent() {
        let stream = |pairs: &[(&str, &str)]| Arc::new(Labels::from_pairs(pairs.iter().copied()));
        let (api_b, api_a) =
            (stream(&[("app", "api"), ("pod", "b")]), stream(&[("app", "api"), ("pod", "a")]));
        let named = stream(&[("app", "zzz"), ("service_name", "api"), ("pod", "c")]);
        let plain = stream(&[("pod", "a")]);
        let mut streams = vec![named.clone(), api_b.clone(), plain.clone(), api_a.clone(), api_b.clone()];
        sort_streams(&mut streams);
        assert_eq!(streams, [plain, api_a, api_b, named]);
    }

    #[test]
    fn streams_of_a_level_are_adjacent_within_their_service() {
        let stream = |app: &str, host: &str, level: &str| {
            Arc::new(Labels::from_pairs([("app", app), ("host", host), ("level", level)]))
        };
        let mut streams = vec![
            stream("a", "1", "info"),
            stream("a", "2", "error"),
            stream("a", "1", "error"),
            stream("b", "1", "error"),
        ];
        sort_streams(&mut streams);
        let sorted = [
            stream("a", "1", "error"),
            stream("a", "2", "error"),
            stream("a", "1", "info"),
            stream("b", "1", "error"),
        ];
        assert_eq!(streams, sorted);
    }
}

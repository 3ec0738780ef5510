//! Writes the answer of a query: streams, matrix, vector or scalar, with statistics and warnings.
//!
//! Streams are ordered by the text of their labels, entries as in the query's result. Without
//! `categorize-labels`, metadata and parsed labels are labels of the stream, so one stored stream may
//! become several.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use sandur_memory::job::spend;
use sandur_model::Labels;
use sandur_model::go_text::labels_text;
use sandur_query::{LogRow, QueryResult, Sample, Series};
use sandur_service::Cost;

use super::json;
use super::stats::write_stats;

/// How labels of rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// All labels of a row are labels of its stream.
    Merged,
    /// Stream labels, metadata and parsed labels are separate.
    Categorized,
}

/// Estimated bytes of [`query_answer`] for this result.
pub fn estimate(result: &QueryResult) -> u64 {
    const PER_STREAM: usize = 512;
    const PER_SAMPLE: usize = 40;
    let of_series = |all: &[Series]| all.iter().map(|s| PER_STREAM + s.samples.len() * PER_SAMPLE).sum();
    let bytes: usize = match result {
        // In practice, escaping makes a line at most a tenth longer.
        QueryResult::Streams(rows) => rows.iter().map(|r| 96 + r.line.len() + r.line.len() / 10).sum(),
        QueryResult::Matrix(all) | QueryResult::Vector(all) => of_series(all),
        QueryResult::Scalar(_) => PER_SAMPLE,
    };
    bytes as u64 + 8_192
}

/// The body of an answer.
pub fn query_answer(result: &QueryResult, encoding: Encoding, cost: &Cost, warnings: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimate(result) as usize);
    out.extend_from_slice(b"{\"status\":\"success\",");
    if !warnings.is_empty() {
        out.extend_from_slice(b"\"warnings\":");
        json::strings(&mut out, warnings.iter().map(String::as_str));
        out.push(b',');
    }
    out.extend_from_slice(b"\"data\":{\"resultType\":");
    match result {
        QueryResult::Streams(rows) => {
            out.extend_from_slice(b"\"streams\",");
            if encoding == Encoding::Categorized {
                out.extend_from_slice(b"\"encodingFlags\":[\"categorize-labels\"],");
            }
            out.extend_from_slice(b"\"result\":");
            streams(&mut out, rows, encoding);
        }
        QueryResult::Matrix(all) => {
            out.extend_from_slice(b"\"matrix\",\"result\":");
            series(&mut out, all, b"\"values\":", |out, samples| {
                out.push(b'[');
                separated(out, samples, |out, s| sample(out, *s));
                out.push(b']');
            });
        }
        QueryResult::Vector(all) => {
            out.extend_from_slice(b"\"vector\",\"result\":");
            series(&mut out, all, b"\"value\":", |out, samples| {
                samples.iter().take(1).for_each(|s| sample(out, *s));
            });
        }
        QueryResult::Scalar(one) => {
            out.extend_from_slice(b"\"scalar\",\"result\":");
            sample(&mut out, *one);
        }
    }
    out.push(b',');
    write_stats(&mut out, cost);
    out.extend_from_slice(b"}}\n");
    out
}

/// Writes items separated by commas. Stops when the query is cancelled, since the answer is not used
/// then.
pub fn separated<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        let before = out.len();
        write(out, item);
        if spend(16 + 2 * (out.len() - before)).is_err() {
            return;
        }
    }
}

/// Appends `[seconds,"value"]`.
pub fn sample(out: &mut Vec<u8>, sample: Sample) {
    out.push(b'[');
    json::seconds(out, sample.timestamp_ms);
    out.extend_from_slice(b",\"");
    json::value(out, sample.value);
    out.extend_from_slice(b"\"]");
}

fn series(out: &mut Vec<u8>, all: &[Series], key: &[u8], values: impl Fn(&mut Vec<u8>, &[Sample])) {
    out.push(b'[');
    separated(out, all, |out, one| {
        out.extend_from_slice(b"{\"metric\":");
        json::labels(out, one.labels.iter().map(|(n, v)| (&**n, &**v)));
        out.push(b',');
        out.extend_from_slice(key);
        values(out, &one.samples);
        out.push(b'}');
    });
    out.push(b']');
}

/// Names and values of labels.
pub type Pairs = Vec<(Box<str>, Box<str>)>;

/// Appends the array of streams, as answers and frames of a tail contain it.
pub fn streams(out: &mut Vec<u8>, rows: &[LogRow], encoding: Encoding) {
    out.push(b'[');
    match encoding {
        Encoding::Categorized => categorized(out, rows),
        Encoding::Merged => merged(out, rows),
    }
    out.push(b']');
}

fn categorized(out: &mut Vec<u8>, rows: &[LogRow]) {
    let mut groups: HashMap<&Labels, Vec<usize>, RandomState> = HashMap::default();
    for (n, row) in rows.iter().enumerate() {
        groups.entry(&row.stream).or_default().push(n);
    }
    let mut order: Vec<(String, &Labels, Vec<usize>)> =
        groups.into_iter().map(|(labels, members)| (labels.to_string(), labels, members)).collect();
    order.sort_by(|a, b| a.0.cmp(&b.0));
    separated(out, &order, |out, (_, labels, members)| {
        stream(out, labels.iter(), members, |out, n| {
            entry(out, &rows[n]);
            out.push(b',');
            categories(out, &rows[n]);
        });
    });
}

fn merged(out: &mut Vec<u8>, rows: &[LogRow]) {
    separated(out, &merged_groups(rows), |out, (_, pairs, members)| {
        stream(out, pairs.iter().map(|(n, v)| (&**n, &**v)), members, |out, n| entry(out, &rows[n]));
    });
}

/// Groups rows by all of their labels: text of the labels, the labels, indices of the rows.
pub fn merged_groups(rows: &[LogRow]) -> Vec<(String, Pairs, Vec<usize>)> {
    // Rows share the labels of their streams, and often have equal metadata and parsed labels. Labels are
    // merged once per distinct combination.
    let mut known: HashMap<(usize, &Labels, &Pairs), usize, RandomState> = HashMap::default();
    let mut by_labels: HashMap<Pairs, usize, RandomState> = HashMap::default();
    let mut groups: Vec<(String, Pairs, Vec<usize>)> = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        let key = (Arc::as_ptr(&row.stream) as usize, &*row.metadata, &*row.parsed);
        let group = *known.entry(key).or_insert_with(|| {
            let pairs = merged_labels(row);
            *by_labels.entry(pairs).or_insert_with_key(|pairs| {
                let text = labels_text(pairs.iter().map(|(name, value)| (&**name, &**value)));
                groups.push((text, pairs.clone(), Vec::new()));
                groups.len() - 1
            })
        });
        groups[group].2.push(n);
    }
    groups.sort_by(|a, b| a.0.cmp(&b.0));
    groups
}

/// All labels of a row. Of equal names, parsed labels override metadata, and metadata the stream's
/// labels.
fn merged_labels(row: &LogRow) -> Pairs {
    let owned = |(n, v): (&str, &str)| (Box::from(n), Box::from(v));
    let mut pairs: Pairs = row.parsed.as_ref().clone();
    pairs.extend(row.metadata.iter().map(owned));
    pairs.extend(row.stream.iter().map(owned));
    pairs.sort_by(|a, b| a.0.cmp(&b.0)); // stable: the first of equal names is kept
    pairs.dedup_by(|later, earlier| later.0 == earlier.0);
    pairs
}

fn stream<'a>(
    out: &mut Vec<u8>,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    members: &[usize],
    write: impl Fn(&mut Vec<u8>, usize),
) {
    out.extend_from_slice(b"{\"stream\":");
    json::labels(out, labels);
    out.extend_from_slice(b",\"values\":[");
    separated(out, members, |out, &n| {
        out.push(b'[');
        write(out, n);
        out.push(b']');
    });
    out.extend_from_slice(b"]}");
}

fn entry(out: &mut Vec<u8>, row: &LogRow) {
    json::push(out, format_args!("\"{}\",", row.timestamp));
    json::string(out, &row.line);
}

/// The third element of a categorized entry: an object with the members that are not empty.
fn categories(out: &mut Vec<u8>, row: &LogRow) {
    out.push(b'{');
    if !row.metadata.is_empty() {
        out.extend_from_slice(b"\"structuredMetadata\":");
        json::labels(out, row.metadata.iter());
    }
    if !row.parsed.is_empty() {
        out.extend_from_slice(if row.metadata.is_empty() { b"\"parsed\":" } else { b",\"parsed\":" });
        json::labels(out, row.parsed.iter().map(|(n, v)| (&**n, &**v)));
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn row(timestamp: i64, line: &str, stream: &[(&str, &str)], metadata: &[(&str, &str)]) -> LogRow {
        LogRow {
            timestamp,
            line: Bytes::copy_from_slice(line.as_bytes()),
            stream: Arc::new(Labels::from_pairs(stream.iter().copied())),
            metadata: Arc::new(Labels::from_pairs(metadata.iter().copied())),
            parsed: Arc::default(),
        }
    }

    fn answer(result: &QueryResult, encoding: Encoding) -> String {
        let text = String::from_utf8(query_answer(result, encoding, &Cost::default(), &[])).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let end = text.find(",\"stats\":{").unwrap();
        text[..end].to_owned()
    }

    // The expected texts are Loki 3.7's answers for the same rows.
    #[test]
    fn streams_split_by_metadata_and_sort_by_their_text() {
        let api = [("app", "api"), ("env", "prod")];
        let rows = vec![
            row(3, "x y", &api, &[("detected_level", "unknown")]),
            row(2, "hello <b>", &api, &[("detected_level", "unknown"), ("trace_id", "abc")]),
            row(1, "a=\"1\"", &api, &[("detected_level", "error")]),
        ];
        let result = QueryResult::Streams(rows);
        assert_eq!(
            answer(&result, Encoding::Merged),
            concat!(
                r#"{"status":"success","data":{"resultType":"streams","result":["#,
                r#"{"stream":{"app":"api","detected_level":"error","env":"prod"},"#,
                r#""values":[["1","a=\"1\""]]},"#,
                r#"{"stream":{"app":"api","detected_level":"unknown","env":"prod","trace_id":"abc"},"#,
                r#""values":[["2","hello \u003cb\u003e"]]},"#,
                r#"{"stream":{"app":"api","detected_level":"unknown","env":"prod"},"values":[["3","x y"]]}]"#,
            )
        );
        assert_eq!(
            answer(&result, Encoding::Categorized),
            concat!(
                r#"{"status":"success","data":{"resultType":"streams","#,
                r#""encodingFlags":["categorize-labels"],"result":["#,
                r#"{"stream":{"app":"api","env":"prod"},"values":["#,
                r#"["3","x y",{"structuredMetadata":{"detected_level":"unknown"}}],"#,
                r#"["2","hello \u003cb\u003e","#,
                r#"{"structuredMetadata":{"detected_level":"unknown","trace_id":"abc"}}],"#,
                r#"["1","a=\"1\"",{"structuredMetadata":{"detected_level":"error"}}]]}]"#,
            )
        );
    }

    #[test]
    fn a_parsed_label_overrides_a_stream_label_and_is_separate_on_request() {
        let mut one = row(1, "l", &[("app", "api"), ("level", "a")], &[]);
        one.parsed = Arc::new(vec![("level".into(), "b".into()), ("status".into(), "".into())]);
        let result = QueryResult::Streams(vec![one]);
        let merged = answer(&result, Encoding::Merged);
        assert!(merged.contains(r#""stream":{"app":"api","level":"b","status":""}"#), "{merged}");
        let apart = answer(&result, Encoding::Categorized);
        assert!(apart.contains(r#"["1","l",{"parsed":{"level":"b","status":""}}]"#), "{apart}");
    }

    #[test]
    fn metrics_are_written_as_prometheus_does() {
        let labels = Arc::new(vec![("app".into(), "api".into())]);
        let samples =
            vec![Sample { timestamp_ms: 1_500, value: 2.0 }, Sample { timestamp_ms: 2_000, value: f64::NAN }];
        let series = vec![Series { labels, samples }];
        assert_eq!(
            answer(&QueryResult::Matrix(series.clone()), Encoding::Merged),
            concat!(
                r#"{"status":"success","data":{"resultType":"matrix","result":"#,
                r#"[{"metric":{"app":"api"},"values":[[1.5,"2"],[2,"NaN"]]}]"#
            )
        );
        assert_eq!(
            answer(&QueryResult::Vector(series), Encoding::Merged),
            concat!(
                r#"{"status":"success","data":{"resultType":"vector","result":"#,
                r#"[{"metric":{"app":"api"},"value":[1.5,"2"]}]"#
            )
        );
        let scalar = QueryResult::Scalar(Sample { timestamp_ms: 1_000, value: 3.0 });
        assert_eq!(
            answer(&scalar, Encoding::Merged),
            r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]"#
        );
        assert_eq!(
            answer(&QueryResult::Streams(Vec::new()), Encoding::Categorized),
            concat!(
                r#"{"status":"success","data":{"resultType":"streams","#,
                r#""encodingFlags":["categorize-labels"],"result":[]"#
            )
        );
    }

    #[test]
    fn warnings_are_a_member_of_the_answer() {
        let warnings = ["block x is damaged".to_owned()];
        let body =
            query_answer(&QueryResult::Vector(Vec::new()), Encoding::Merged, &Cost::default(), &warnings);
        let text = String::from_utf8(body).unwrap();
        assert!(
            text.starts_with(r#"{"status":"success","warnings":["block x is damaged"],"data":{"#),
            "{text}"
        );
    }
}

//! Pipeline stages on arbitrary lines.
//!
//! The first byte of the input chooses a pipeline; the rest is lines, each ended by a zero byte.

use std::sync::Arc;

use sandur_model::{Labels, Level, LineColumn, LogPage, MetadataColumn, MetadataValues, StreamRun};

/// Pipelines that together contain every stage.
const PIPELINES: &[&str] = &[
    r#"| json"#,
    r#"| json x="a.b[1].c", y="[0]", z="k", w="[\"q r\"]""#,
    r#"| logfmt"#,
    r#"| logfmt --strict --keep-empty | k > 1s or x = ip("::1/64"), a < 1KB | drop a, k="v" | keep x, k"#,
    r#"| logfmt a="b", c"#,
    r#"| unpack | line_format "{{ __line__ }}{{ .x }}""#,
    r#"| pattern "<a> <_>: <b>" | a != ip("10.0.0.0/8") and b =~ "x+""#,
    r#"| pattern "<_>[<a>]<b>""#,
    r#"| regexp "(?P<a>\\w+)=(?P<b>[^ ]*)" | a >= 1.5"#,
    r#"| decolorize | json | logfmt | label_format a=k, n="{{ .a | upper | trunc 3 }}""#,
    r#"|= "a" or "b" != "c" |~ "(?i)x[0-9]+" !~ "y{2,3}" |> "<_>a<_>" !> "b<_>""#,
    r#"|= ip("10.0.0.1-10.0.0.9") != ip("::1")"#,
];

/// Longest text that a stage may produce, in bytes.
const MADE_BYTES_MAX: usize = 1 << 20;

/// Runs the chosen pipeline on the lines.
pub fn run(input: &[u8]) {
    let Some((choice, lines)) = input.split_first() else { return };
    let stages = PIPELINES[usize::from(*choice) % PIPELINES.len()];
    let lines: Vec<&[u8]> = lines.split(|b| *b == 0).collect();
    process(&format!("{{app=\"a\"}} {stages}"), &lines);
}

/// Runs a log query on lines. Does nothing if the text is not a valid query.
pub fn process(query: &str, lines: &[&[u8]]) {
    let Ok(query) = sandur_logql::compile_log_query(query) else { return };
    let mut column = LineColumn::default();
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line);
        column.ends.push(bytes.len() as u32);
        bytes.push(b'\n');
    }
    column.bytes = bytes.into();
    let count = lines.len() as u32;
    let labels = Arc::new(Labels::from_pairs([("app", "a")]));
    let trace = MetadataColumn { name: "x".into(), values: MetadataValues::Constant("m".into()) };
    let page = LogPage {
        runs: vec![StreamRun { labels, start: 0, end: count, suspect: None }],
        timestamps: (0..i64::from(count)).map(|n| 1_767_225_600_000_000_000 + n).collect(),
        levels: vec![Level::Info; lines.len()],
        metadata: vec![trace],
        lines: Some(column),
    };
    let mut rows = Vec::new();
    query.process_page(&page, &mut rows);
    assert!(rows.len() <= lines.len(), "stages do not add rows");
    // The text that a stage produces is bounded; the text that it extracts from a line is bounded by the
    // line's length.
    let longest = MADE_BYTES_MAX + lines.iter().map(|line| 3 * line.len()).max().unwrap_or(0);
    for row in &rows {
        let values = row.parsed.iter().map(|(_, value)| value.len());
        assert!(values.chain([row.line.len()]).all(|length| length <= longest), "a text exceeds the bound");
        let names: Vec<&str> = row.parsed.iter().map(|(name, _)| &**name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "labels are sorted and unique: {names:?}");
    }
}

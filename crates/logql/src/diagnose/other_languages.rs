//! Words of other query languages and what does their work here.

/// Functions of PromQL that LogQL lacks, and what to use.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("increase", "LogQL has no `increase`: `count_over_time` counts the lines of the window"),
    ("irate", "LogQL has no `irate`: `rate` over a short window comes close"),
    ("delta", "LogQL has no `delta`: `first_over_time` and `last_over_time` give both ends of the window"),
    ("idelta", "LogQL has no `idelta`: `first_over_time` and `last_over_time` give both ends of the window"),
    ("deriv", "LogQL has no `deriv`: subtract with `offset`, rate(…) - rate(… offset 5m)"),
    ("predict_linear", "LogQL has no `predict_linear`; Grafana can draw trends over the answer"),
    (
        "histogram_quantile",
        "lines have no buckets: quantile_over_time(0.99, {…} | unwrap LABEL [5m]) takes the numbers",
    ),
    ("quantile", "write quantile_over_time(0.99, {…} | unwrap LABEL [5m])"),
    ("count_values", "group by the label instead: sum by (LABEL) (count_over_time({…} [5m]))"),
    ("group", "group with `sum by (LABEL) (…)`"),
    ("label_join", "join before the window: {…} | label_format joined=\"{{.a}}-{{.b}}\""),
    ("absent", "write absent_over_time({…} [5m])"),
    ("present_over_time", "write count_over_time({…} [5m]) > bool 0"),
    ("changes", "LogQL does not compare neighbouring lines"),
    ("resets", "LogQL does not compare neighbouring lines; `rate_counter` knows resets"),
    ("avg_by", "write avg by (LABEL) (…)"),
    ("sum_by", "write sum by (LABEL) (…)"),
    ("count_by", "write count by (LABEL) (…)"),
    ("abs", "LogQL has operators but no functions of numbers"),
    ("ceil", "LogQL has operators but no functions of numbers; templates have `ceil`"),
    ("floor", "LogQL has operators but no functions of numbers; templates have `floor`"),
    ("round", "LogQL has operators but no functions of numbers; templates have `round`"),
    ("sqrt", "write the power: … ^ 0.5"),
    ("time", "LogQL has no `time()`; templates have `now` and `__timestamp__`"),
];

/// What other languages do behind a bar, and how it is done here.
pub const STAGES: &[(&str, &str)] = &[
    ("where", "write the condition itself: | status >= 500"),
    ("filter", "write the condition itself: | status >= 500, or `|= \"text\"` for the line"),
    ("search", "write `|= \"text\"`, or `|~ \"regex\"`"),
    ("grep", "write `|= \"text\"`, or `|~ \"regex\"`"),
    ("contains", "write `|= \"text\"`"),
    ("match", "write `|~ \"regex\"`"),
    ("limit", "how many lines are answered is no part of the query: use --limit N"),
    ("head", "how many lines are answered is no part of the query: use --limit N"),
    ("take", "how many lines are answered is no part of the query: use --limit N"),
    ("tail", "the newest lines come first; --limit N says how many, --forward turns the order"),
    ("sort", "lines are sorted by time, the newest first; --forward turns the order"),
    ("order", "lines are sorted by time, the newest first; --forward turns the order"),
    ("stats", "count with sum by (LABEL) (count_over_time({…} [5m]))"),
    ("count", "count with sum(count_over_time({…} [5m]))"),
    ("summarize", "count with sum by (LABEL) (count_over_time({…} [5m]))"),
    ("uniq", "count with sum by (LABEL) (count_over_time({…} [5m]))"),
    ("dedup", "count with sum by (LABEL) (count_over_time({…} [5m]))"),
    ("top", "write topk(10, sum by (LABEL) (count_over_time({…} [5m])))"),
    ("fields", "write | keep a, b for labels, | line_format \"{{.a}} {{.b}}\" for the line"),
    ("project", "write | keep a, b for labels, | line_format \"{{.a}} {{.b}}\" for the line"),
    ("select", "write | keep a, b for labels, | line_format \"{{.a}} {{.b}}\" for the line"),
    ("rename", "write | label_format new=old"),
    ("eval", "write | label_format name=\"{{…}}\""),
    ("extend", "write | label_format name=\"{{…}}\""),
    ("rex", "write | regexp \"(?P<name>…)\", or | pattern \"<name> …\""),
    ("extract", "write | regexp \"(?P<name>…)\", or | pattern \"<name> …\""),
    ("parse", "write | json, | logfmt, | pattern \"<name> …\" or | regexp \"(?P<name>…)\""),
    ("remove", "write | drop a, b"),
];

/// What the table says of a word.
pub fn find(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(word)).map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_ours_is_called_strange() {
        for (word, _) in FUNCTIONS {
            assert!(!crate::lexer::FUNCTIONS.contains(word), "{word}");
        }
        for (word, _) in STAGES {
            assert!(crate::stage::STAGES.iter().all(|stage| stage.name != *word), "{word}");
        }
    }
}

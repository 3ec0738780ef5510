//! Keywords of other query languages, and their equivalents in LogQL.

/// Functions that LogQL lacks, most of them of PromQL, with an equivalent.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("increase", "LogQL has no `increase`: `count_over_time` counts the lines in the window"),
    ("irate", "LogQL has no `irate`: use `rate` over a short window"),
    ("delta", "LogQL has no `delta`: subtract `first_over_time` from `last_over_time`"),
    ("idelta", "LogQL has no `idelta`: subtract `first_over_time` from `last_over_time`"),
    ("deriv", "LogQL has no `deriv`: subtract with `offset`, rate(…) - rate(… offset 5m)"),
    ("predict_linear", "LogQL has no `predict_linear`; Grafana can draw trends"),
    ("histogram_quantile", "lines have no buckets: write quantile_over_time(0.99, {…} | unwrap LABEL [5m])"),
    ("quantile", "write quantile_over_time(0.99, {…} | unwrap LABEL [5m])"),
    ("count_values", "group by the label instead: sum by (LABEL) (count_over_time({…} [5m]))"),
    ("group", "group with `sum by (LABEL) (…)`"),
    ("label_join", "join labels before the window: {…} | label_format joined=\"{{.a}}-{{.b}}\""),
    ("absent", "write absent_over_time({…} [5m])"),
    ("present_over_time", "write count_over_time({…} [5m]) > bool 0"),
    ("changes", "LogQL does not compare neighbouring lines"),
    ("resets", "LogQL does not compare neighbouring lines; `rate_counter` handles resets"),
    ("avg_by", "write avg by (LABEL) (…)"),
    ("sum_by", "write sum by (LABEL) (…)"),
    ("count_by", "write count by (LABEL) (…)"),
    ("abs", "LogQL has no functions of numbers, only operators"),
    ("ceil", "LogQL has no functions of numbers; templates have `ceil`"),
    ("floor", "LogQL has no functions of numbers; templates have `floor`"),
    ("round", "LogQL has no functions of numbers; templates have `round`"),
    ("sqrt", "write it as a power: … ^ 0.5"),
    ("time", "LogQL has no `time()`; templates have `now` and `__timestamp__`"),
];

/// Commands after a bar in other languages, with an equivalent.
pub const STAGES: &[(&str, &str)] = &[
    ("where", "write the condition itself: | status >= 500"),
    ("filter", "write the condition itself: | status >= 500, or `|= \"text\"` for the line"),
    ("search", "write `|= \"text\"`, or `|~ \"regex\"`"),
    ("grep", "write `|= \"text\"`, or `|~ \"regex\"`"),
    ("contains", "write `|= \"text\"`"),
    ("match", "write `|~ \"regex\"`"),
    ("limit", "the query does not limit the number of lines: use --limit N"),
    ("head", "the query does not limit the number of lines: use --limit N"),
    ("take", "the query does not limit the number of lines: use --limit N"),
    ("tail", "the newest lines come first; --limit N limits their number, --forward reverses the order"),
    ("sort", "lines are sorted by time, the newest first; --forward reverses the order"),
    ("order", "lines are sorted by time, the newest first; --forward reverses the order"),
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

/// The entry of the table for a word.
pub fn find(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(word)).map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_logql_is_in_the_tables() {
        for (word, _) in FUNCTIONS {
            assert!(!crate::lexer::FUNCTIONS.contains(word), "{word}");
        }
        for (word, _) in STAGES {
            assert!(crate::stage::STAGES.iter().all(|stage| stage.name != *word), "{word}");
        }
    }
}

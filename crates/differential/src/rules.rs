//! The intended differences, and those of Loki's own nondeterminism, each with its reason.
//!
//! A rule checks the request, the difference and both answers, and explains as little as possible.
//! `docs/reference/loki-compatibility.md` is generated from this table.

use std::collections::BTreeSet;

use sandur_bench::http::Answer;
use serde_json::Value;

use crate::ask::{Ask, Shape};
use crate::compare::{Difference, Kind, close, compare};
use crate::controls;
use crate::grammar::Query;
use crate::refusals::{begins, contains, names_token, refuses_text, unmatched};

/// A difference with its request and both answers.
pub struct Case<'a> {
    /// The request.
    pub ask: &'a Ask,
    /// How the answers differ.
    pub difference: &'a Difference,
    /// Loki's answer.
    pub loki: &'a Answer,
    /// Our answer.
    pub ours: &'a Answer,
}

/// Returns the request without the construct that a rule is about; `None` if that cannot be removed.
pub type Control = fn(&Ask) -> Option<Ask>;

/// An explained difference.
#[derive(Clone, Copy)]
pub struct Rule {
    /// A short name, printed in reports.
    pub id: &'static str,
    /// What differs.
    pub what: &'static str,
    /// The reason of the difference.
    pub reason: &'static str,
    /// Returns whether the rule explains a difference.
    pub explains: fn(&Case<'_>) -> bool,
    /// A further condition.
    pub check: Check,
}

/// A condition on the answers to control requests.
#[derive(Clone, Copy)]
pub enum Check {
    /// No condition.
    None,
    /// Both answer this request equally.
    Alike(Control),
    /// Loki formats the query of our answer in the same way as the query of the request.
    FormattedAlike,
}

impl Rule {
    const fn if_alike(self, control: Control) -> Self {
        Self { check: Check::Alike(control), ..self }
    }

    const fn if_formatted_alike(self) -> Self {
        Self { check: Check::FormattedAlike, ..self }
    }
}

/// The rule that sends the request to Loki again; [`crate::run`] applies it.
pub const VARIES: &str = "loki-varies";

const fn rule(
    id: &'static str,
    what: &'static str,
    reason: &'static str,
    explains: fn(&Case<'_>) -> bool,
) -> Rule {
    Rule { id, what, reason, explains, check: Check::None }
}

/// Returns the value of a scalar answer.
fn scalar(answer: &Answer) -> Option<Value> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    let is_scalar = body.pointer("/data/resultType")? == "scalar";
    is_scalar.then(|| body.pointer("/data/result/1").cloned()).flatten()
}

/// Returns whether both answers have the same numbers in the same order, regardless of their series.
fn in_step(case: &Case<'_>) -> bool {
    let numbers = |answer: &Answer| -> Option<Vec<String>> {
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let series = body.pointer("/data/result")?.as_array()?;
        series.iter().map(|one| Some(one.pointer("/value/1")?.as_str()?.to_owned())).collect()
    };
    let (Some(loki), Some(ours)) = (numbers(case.loki), numbers(case.ours)) else { return false };
    loki.len() == ours.len() && loki.iter().zip(&ours).all(|(a, b)| close(a, b))
}

/// Returns whether a stage or filter of the query is a cause.
fn has(case: &Case<'_>, is_cause: fn(&str) -> bool) -> bool {
    case.ask.shape == Shape::Query && controls::parts(case.ask).iter().any(|part| is_cause(part))
}

/// Returns whether the difference disappears when `change` is applied to both answers.
fn without(case: &Case<'_>, change: fn(&mut Value)) -> bool {
    let changed = |answer: &Answer| -> Option<Answer> {
        let mut body: Value = serde_json::from_slice(&answer.body).ok()?;
        let streams = body.pointer_mut("/data/result")?.as_array_mut()?;
        streams.iter_mut().for_each(change);
        // A changed label may change the order of streams.
        streams.sort_by_key(Value::to_string);
        Some(Answer::new(answer.status, body.to_string()))
    };
    let (Some(loki), Some(ours)) = (changed(case.loki), changed(case.ours)) else { return false };
    compare(case.ask, &loki, &ours).is_none()
}

/// Returns whether Loki's streams contain all of our entries. At a limit Loki may have more, since
/// removing duplicates makes room for others.
fn holds_ours(case: &Case<'_>) -> bool {
    let entries = |answer: &Answer| -> Option<BTreeSet<String>> {
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let mut all = BTreeSet::new();
        for stream in body.pointer("/data/result")?.as_array()? {
            let labels = stream["stream"].to_string();
            all.extend(stream["values"].as_array()?.iter().map(|entry| format!("{labels} {entry}")));
        }
        Some(all)
    };
    let (loki, ours) = (entries(case.loki), entries(case.ours));
    loki.zip(ours).is_some_and(|(loki, ours)| !ours.is_empty() && ours.is_subset(&loki))
}

/// Removes the error details of a failed template from labels and from the parsed labels of entries.
fn template_details(stream: &mut Value) {
    change_details(stream, |text| if text.starts_with("template: ") { "" } else { text });
}

/// Truncates the error details of a failure, which quote a value of any length.
fn long_details(stream: &mut Value) {
    change_details(stream, |text| &text[..text.floor_char_boundary(DETAILS_SHOWN)]);
}

/// A length that is smaller than what our messages quote of a value.
const DETAILS_SHOWN: usize = 4_000;

fn change_details(stream: &mut Value, change: fn(&str) -> &str) {
    let put = |labels: &mut Value| {
        if let Some(details) = labels.get_mut("__error_details__") {
            *details = details.as_str().map(|text| Value::from(change(text))).unwrap_or_default();
        }
    };
    put(&mut stream["stream"]);
    for entry in stream["values"].as_array_mut().into_iter().flatten() {
        if let Some(parsed) = entry.get_mut(2).and_then(|categories| categories.get_mut("parsed")) {
            put(parsed);
        }
    }
}

/// Removes duplicates of equal entries.
fn repetitions(stream: &mut Value) {
    if let Some(entries) = stream["values"].as_array_mut() {
        entries.dedup();
    }
}

/// Every rule.
pub const RULES: &[Rule] = &[
    rule(
        VARIES,
        "Loki's first answer; asked again, up to six times, it gives an answer that equals ours.",
        "Some of Loki's answers depend on the order of a hash map: which of equal values `topk` keeps, or \
         which of several errors it reports.",
        |_| false,
    ),
    rule(
        "which-error",
        "Both reject a metric query with a pipeline error, but name different series or lines.",
        "One line with an error ends a metric query. Which error is found first depends on how lines are \
         stored: Loki chooses one from a hash map, Sandur reports the first that a worker finds.",
        |case| {
            let is_one =
                |answer: &Answer| answer.status == 400 && answer.body.starts_with(b"pipeline error: '");
            case.difference.kind == Kind::ErrorText && is_one(case.loki) && is_one(case.ours)
        },
    ),
    rule(
        "syntax-error-wording",
        "Both reject a query because of an unexpected token, but name different tokens or list different \
         expected tokens.",
        "Loki's parser is generated: the states of its tables determine which tokens it lists, and how far \
         it reads before it reports an error. The line, the column and the token are mostly the same.",
        |case| case.difference.kind == Kind::ErrorText && names_token(case.loki) && names_token(case.ours),
    ),
    rule(
        "first-mistake",
        "Both reject a query with several mistakes, but name different ones, or only one of them names the \
         stage.",
        "Loki reports mistakes of syntax and of number literals first, then mistakes of meaning, then a log \
         query that is sent as an instant query, and last the mistakes of stages and their expressions. Of \
         operators that cannot have a number as a side, it reports the outermost. Sandur reports the \
         leftmost mistake.",
        |case| {
            let both = refuses_text(case.loki) && refuses_text(case.ours);
            let by_token = both && names_token(case.loki) != names_token(case.ours);
            let of_stage = |answer: &Answer| refuses_text(answer) && contains(answer, " : stage '");
            let by_stage = of_stage(case.ours) || refuses_text(case.ours) && of_stage(case.loki);
            let of_literal = |answer| contains(answer, "unable to parse literal as a float");
            let by_literal = both && of_literal(case.loki) && !of_literal(case.ours);
            let of_kind = |answer| contains(answer, "log queries are not supported as an instant query");
            let by_kind = of_kind(case.loki) && contains(case.ours, "cannot parse expression [");
            let of_side = |answer| contains(answer, "leg of logical/set binary operation");
            let by_side = both && of_side(case.loki) && of_side(case.ours);
            let by_any = by_token || by_stage || by_literal || by_kind || by_side;
            case.difference.kind == Kind::ErrorText && by_any
        },
    ),
    rule(
        "number-literals",
        "Loki rejects number literals such as `0B`, `08`, `0x1.5` and `1e`.",
        "Loki's scanner treats them as invalid Go literals, even the size zero (`> 0B`). Sandur accepts the \
         literals that have a meaning, and rejects the others with another error text.",
        |case| {
            let words = [" literal", "has no digits", "requires a 'p' exponent"];
            names_token(case.loki) && words.iter().any(|word| contains(case.loki, word))
        },
    ),
    rule(
        "logfmt-keys",
        "`logfmt` accepts a key as it is in the line (`logfmt x=\"dash-key\"`); Loki rejects it.",
        "Loki finds such a key only by its label name (`x=\"dash_key\"`), which Sandur accepts too.",
        |case| {
            let refused = refuses_text(case.loki) && contains(case.loki, " : stage '| logfmt");
            refused && contains(case.loki, "cannot parse expression [") && case.ours.status == 200
        },
    ),
    rule(
        "scalar-time",
        "The timestamp of a scalar result (`1 + 2`) is the time of the request; Loki's is far in the past.",
        "Loki multiplies a time in milliseconds by a million when it writes the answer. The value is the \
         same.",
        |case| {
            let (loki, ours) = (scalar(case.loki), scalar(case.ours));
            loki.is_some() && loki == ours
        },
    ),
    rule(
        "or-ip",
        "In a line filter with `ip(..)` and `or`, Sandur matches addresses; Loki matches the text between \
         the quotes.",
        "Loki ignores that an alternative is an address if there is another alternative.",
        |case| has(case, controls::address_or_other),
    )
    .if_alike(controls::without_address_or_other),
    rule(
        "ip-colons",
        "A filter for an address that begins with colons (`|= ip(\"::1\")`) finds it; in Loki it does not.",
        "Loki searches only for addresses that begin with a digit or a letter.",
        |case| has(case, controls::address_of_colons),
    )
    .if_alike(controls::without_address_of_colons),
    rule(
        "equal-ranks",
        "`topk` and `bottomk` keep a different one of several series with equal values.",
        "Loki keeps the first in the order of a hash map, Sandur the first by labels.",
        |case| {
            let query = case.ask.query_text();
            let ranks =
                query.contains("topk(") || query.contains("topk by") || query.contains("topk without");
            let ranks = ranks || query.contains("bottomk");
            ranks && case.difference.kind == Kind::Attribution
        },
    ),
    rule(
        "equal-ranks-within",
        "An expression around `topk` or `bottomk` gets a different one of several series with equal values.",
        "The series that the inner function keeps determine the result of the outer one.",
        |case| {
            let query = case.ask.query_text();
            let functions = query.matches("topk").count() + query.matches("bottomk").count();
            let outermost = query.starts_with("topk") || query.starts_with("bottomk");
            case.ask.shape == Shape::Query && functions > usize::from(outermost)
        },
    )
    .if_alike(controls::without_ranks),
    rule(
        "same-series-twice",
        "Loki's answer has several series with the same labels, or several values of one series at the same \
         time; ours has one, the sum (or minimum, or maximum) of all. Functions around such an expression \
         get the same series, and binary operators fail to match them.",
        "After `drop`, `keep`, `label_format`, `label_replace` and `without`, Loki distinguishes series by \
         labels with empty values, but loses these labels when it passes results between its shards.",
        |case| {
            let query = case.ask.query_text();
            let removes = ["| drop", "| keep", "label_format", "without", "label_replace"];
            let alike = case.loki.status == case.ours.status || unmatched(case.loki);
            let is_metric = matches!(case.ask.query, Some(Query::Metric(_)));
            is_metric && removes.iter().any(|word| query.contains(word)) && alike
        },
    )
    .if_alike(controls::without_empty_labels),
    rule(
        "empty-label-regex",
        "A label filter with an empty regular expression (`a !~ \"\"`) tests whether the label has a value.",
        "Loki treats the empty expression as one that every value matches.",
        |case| has(case, controls::empty_expression),
    )
    .if_alike(controls::without_empty_expressions),
    rule(
        "format",
        "`format_query` breaks or indents lines differently, or writes some things differently: quotes, \
         `vector(1.000000)`, negated line filters with `or`, `by ()`.",
        "Loki normalizes these when it parses a query, and omits some spaces. Our text has the same meaning: \
         Loki formats it as it formats the query.",
        |case| case.ask.path.ends_with("format_query") && case.loki.status == 200 && case.ours.status == 200,
    )
    .if_formatted_alike(),
    rule(
        "labels-by-time",
        "Labels, values, series and streams of a time range are those of lines within it; both bounds are \
         inclusive.",
        "Loki's ingesters return the labels of everything in memory, regardless of the time range. Loki's \
         index excludes the end, and has the time ranges of chunks, not of lines.",
        |case| {
            let paths = ["labels", "values", "series", "detected_labels", "index/stats"];
            let of_streams = paths.iter().any(|path| case.ask.path.ends_with(path))
                && !case.ask.path.contains("detected_field");
            of_streams && case.loki.status == 200 && case.ours.status == 200
        },
    )
    .if_alike(controls::about_all_time),
    rule(
        "every-stream",
        "Labels, series and sizes can be requested for every stream: `{}`, `{app=~\".*\"}`, or no selector.",
        "Loki rejects such selectors as it does in queries, although it accepts a request for labels without \
         a selector.",
        |case| {
            let words =
                ["queries require at least one regexp or equality matcher", "unexpected $end", "0 matchers"];
            let refused = words.iter().any(|word| contains(case.loki, word));
            case.ask.shape != Shape::Query && refused && case.ours.status == 200
        },
    ),
    rule(
        "renamed-keys",
        "A grouped metric query sees labels that `logfmt` extracts from keys with other names (`logfmt \
         took=\"duration\"`).",
        "Loki skips keys that the query does not name before it checks to which labels they are renamed.",
        |case| case.ask.query_text().contains("by (") && has(case, controls::renames_keys),
    )
    .if_alike(controls::without_renamed_keys),
    rule(
        "or-empty",
        "A line filter with an alternative that every line contains (`|= \"a\" or \"\"`) passes every line; \
         in Loki it does not.",
        "Loki removes this alternative and keeps the others.",
        |case| has(case, controls::any_line_or_other),
    )
    .if_alike(controls::without_any_line),
    rule(
        "interval",
        "With `interval`, different lines are omitted.",
        "Loki applies `interval` to each part of a query (an hour or a shard), and then to the combined \
         result. Sandur applies it once, to the complete answer.",
        |case| case.ask.parameter("interval").is_some() && case.difference.kind == Kind::Content,
    )
    .if_alike(controls::without_interval),
    rule(
        "approximate",
        "`approx_topk` keeps a different one of several series with nearly equal values, or is rejected for \
         another reason.",
        "Loki's result is approximate, ours is exact. Loki detects late that `approx_topk` does not support \
         range queries.",
        |case| {
            let refused = case.loki.status >= 400 && case.ours.status >= 400;
            case.ask.query_text().contains("approx_topk") && (case.ours.status == 200 || refused)
        },
    )
    .if_alike(controls::with_exact_ranks),
    rule(
        "average",
        "A grouped `avg_over_time`, or one after `drop`, `keep` or `label_format`, is the mean of the \
         values; Loki's is smaller, or fails.",
        "Loki divides the sum of the values by the number of lines, including lines without the label and \
         lines that a filter after `unwrap` removed.",
        |case| case.ours.status == 200 && controls::has_parted_average(case.ask),
    )
    .if_alike(controls::without_average),
    rule(
        "average-of-sums",
        "`avg` with a grouping, over the `sum_over_time` or `rate` of an unwrapped label (`unwrap x`), \
         groups series that do not have this label, like `max` and `count`. In Loki some groups, or all, are \
         missing.",
        "Loki divides a sum, which is grouped before the unwrapped label is removed, by a count, which is \
         grouped after that.",
        |case| case.ours.status == 200 && controls::averages_sums(case.ask),
    )
    .if_alike(controls::without_vector_average),
    rule(
        "rate-counter",
        "`rate_counter` extrapolates the increase to the bounds of the window.",
        "Prometheus and Loki after 3.7 do so too. Loki 3.7 confuses nanoseconds with milliseconds, and \
         hardly extrapolates.",
        |case| {
            let answered = case.loki.status == 200 && case.ours.status == 200;
            case.ask.shape == Shape::Query && answered && case.ask.query_text().contains("rate_counter(")
        },
    )
    .if_alike(controls::without_rate_counter),
    rule(
        "error-label-in-line",
        "A line contains a field `__error__`, and a stage fails for this line, or a template reads \
         `.__error__`.",
        "In Loki the row then has two labels with this name. Which of them is shown, is read or ends a query \
         varies from row to row.",
        |case| {
            let marks = ["pipeline error: 'fake'", "\"__error__\":\"fake\""];
            let marked = |answer: &Answer| marks.iter().any(|mark| contains(answer, mark));
            marked(case.loki) || marked(case.ours)
        },
    )
    .if_alike(controls::without_error_fields),
    rule(
        "matching-status",
        "If series cannot be matched one to one, the query fails with status 400, or with the error of a \
         line; Loki's status is 500.",
        "The mistake is in the query, and a status of 500 triggers alerts. Loki evaluates step by step and \
         reports the mistake that is first in time; Sandur reads the lines of all steps before it matches \
         series.",
        |case| {
            let refused = unmatched(case.ours) || begins(case.ours, "pipeline error: '");
            case.ours.status == 400 && unmatched(case.loki) && refused
        },
    ),
    rule(
        "field-types",
        "A detected field has another type or another path.",
        "Loki's type is that of the last line that it examined, ours is a type that fits all values. If two \
         paths give the same label, Loki names either of them.",
        |case| {
            let untyped = |answer: &Answer| -> Option<Vec<String>> {
                let mut body: Value = serde_json::from_slice(&answer.body).ok()?;
                let mut texts = Vec::new();
                for field in body.get_mut("fields")?.as_array_mut()? {
                    let members = field.as_object_mut()?;
                    members.remove("type");
                    members.remove("jsonPath");
                    texts.push(field.to_string());
                }
                texts.sort();
                Some(texts)
            };
            let (loki, ours) = (untyped(case.loki), untyped(case.ours));
            loki.is_some() && loki == ours
        },
    ),
    rule(
        "index-sizes",
        "Entries of `index/stats` and series of `index/volume_range` differ.",
        "Loki's index contains chunks, and assumes that their lines are spread evenly over their time. Ours \
         counts the lines of each minute; a line that was sent twice counts twice until both copies are in \
         one block.",
        |case| {
            let ranged = case.ask.path.ends_with("index/volume_range");
            let entries =
                case.ask.shape == Shape::IndexStats && case.difference.detail.starts_with("entries");
            case.difference.kind == Kind::Content && (ranged || entries)
        },
    ),
    rule(
        "volume-of-one-step",
        "`index/volume_range` always returns a matrix; Loki returns a vector for one step.",
        "The type of an answer should not depend on the number of steps that have lines.",
        |case| {
            let one = contains(case.loki, "\"resultType\":\"vector\"");
            case.ask.path.ends_with("index/volume_range") && case.difference.kind == Kind::Shape && one
        },
    ),
    rule(
        "stage-never-built",
        "Loki answers or formats a query that has an invalid stage; Sandur rejects it.",
        "Loki checks a stage when it first runs it. It does not run stages if its index shows that there is \
         no data, if a count needs no formatted line, or if the query is only formatted.",
        |case| {
            let empty = contains(case.loki, "\"result\":[]") || case.ask.path.ends_with("format_query");
            let unused = contains(case.ours, " : stage '| line_format");
            let answered = case.loki.status == 200 && (empty || unused) || unused && unmatched(case.loki);
            answered && contains(case.ours, " : stage '")
        },
    ),
    rule(
        "loki-fails",
        "Loki fails with status 500 or does not answer; Sandur answers or rejects the query.",
        "Loki cannot evaluate `label_replace` of a number, and detects late that `approx_topk` requires an \
         instant query.",
        |case| {
            let words = ["unexpected expr type", "count min sketches are only supported"];
            case.loki.status == 0
                || case.loki.status == 500 && words.iter().any(|word| contains(case.loki, word))
        },
    ),
    rule(
        "base64-padding",
        "`b64dec` decodes base64 without padding.",
        "Loki inserts the text of an error instead.",
        |case| has(case, controls::decodes_base64),
    )
    .if_alike(controls::without_base64),
    rule(
        "sort-ties",
        "Series with equal values are in a different order after `sort` and `sort_desc`.",
        "Loki returns them in the order of a hash map, Sandur by their labels.",
        |case| {
            let sorts = case.ask.query_text().contains("sort");
            sorts && case.difference.kind == Kind::Order && in_step(case)
        },
    ),
    rule(
        "size-literals",
        "A label filter compares with the size as written (`bytes < 1KiB`).",
        "Loki rewrites a query for its parts, and writes sizes with two digits: `1KiB` becomes `1.0kB`.",
        |case| has(case, controls::binary_size),
    )
    .if_alike(controls::without_binary_sizes),
    rule(
        "ties",
        "Lines with equal timestamps are in a different order, or the limit keeps different ones of them; or \
         values with equal timestamps are in a different order, in series that `label_replace` made equal.",
        "Loki orders them by a hash, or by their labels where it merges shards. Sandur orders lines by \
         arrival, and values by size.",
        |case| matches!(case.difference.kind, Kind::TieOrder | Kind::TieCut),
    ),
    rule(
        "ties-of-formatted-lines",
        "Of lines with equal timestamps that `line_format` made equal, the limit keeps those of other \
         streams.",
        "As for `ties`: without `line_format` the same rows are in a different order.",
        |case| {
            case.difference.kind == Kind::TieCutLabels && has(case, |part| part.starts_with("| line_format"))
        },
    )
    .if_alike(controls::without_line_formats),
    rule(
        "template-error-details",
        "`__error_details__` of a failed template names another position in it, or another reason.",
        "The text comes from Go's template package, which knows the position and type of an argument.",
        |case| without(case, template_details),
    ),
    rule(
        "long-error-details",
        "`__error_details__` quotes at most 4 KiB of a value.",
        "Otherwise a row with a long value would need its size twice. Loki quotes the complete value.",
        |case| without(case, long_details),
    ),
    rule(
        "formatted-duplicates",
        "Lines that a stage made equal, with equal timestamps and labels, occur once in Loki's answer.",
        "Loki treats them as one line that it received from several places. They are different lines.",
        |case| {
            let formats = case.ask.query_text().contains("_format");
            formats && (without(case, repetitions) || holds_ours(case))
        },
    ),
    rule(
        "huge-numbers",
        "`fromJson` returns nothing for a text with a number that is too large for a double (`1e400`).",
        "Go's decoder skips such a number; ours treats the text as invalid.",
        |case| case.ask.shape == Shape::Query && case.ask.query_text().contains("fromJson"),
    )
    .if_alike(controls::without_huge_numbers),
    rule(
        "rounding",
        "Numbers have a relative difference of less than 1e-9.",
        "Sandur's sums are exact. Loki's depend on the order of its chunks and hash maps, which differs \
         between two of its own answers.",
        |case| case.difference.kind == Kind::Rounding,
    ),
];

/// Returns the rules as a table for the page on compatibility.
pub fn table() -> String {
    let mut page = String::from("| rule | what differs | why |\n|---|---|---|\n");
    for rule in RULES {
        page += &format!("| `{}` | {} | {} |\n", rule.id, rule.what, rule.reason);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_lists_every_rule() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/loki-compatibility.md");
        let page = std::fs::read_to_string(path).unwrap();
        let remedy =
            "stale: replace the table by the output of `cargo run -p sandur-differential -- --rules`";
        assert!(page.contains(&table()), "{remedy}");
    }
}

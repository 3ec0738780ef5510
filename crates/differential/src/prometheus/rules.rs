//! The intended differences, each with its reason.
//!
//! A rule checks the query, the difference and both answers, and explains as little as possible.
//! `docs/reference/prometheus-differences.md` is generated from this table.

use std::collections::BTreeSet;

use super::answer::{Answer, Data, Names};
use super::ask::Ask;
use super::case::Case;
use super::choices;
use super::compare::{Kind, are_same_points, close};

/// An explained difference.
pub struct Rule {
    /// A short name, printed in reports.
    pub id: &'static str,
    /// What differs.
    pub what: &'static str,
    /// The reason of the difference.
    pub reason: &'static str,
    /// Returns whether the rule explains a difference.
    pub explains: fn(&Case<'_>) -> bool,
    /// Returns control queries. If there are any, one of them must differ by the same rule without
    /// further controls.
    pub controls: fn(&Case<'_>) -> Vec<Ask>,
}

/// For rules without control queries.
fn none(_: &Case<'_>) -> Vec<Ask> {
    Vec::new()
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        id: "ties",
        what: "which of several equal series `topk`, `bottomk` and `limitk` choose, and everything that \
               depends on the choice",
        reason: "Prometheus chooses those that its storage returns first, in the order of their creation",
        explains: |case| {
            // One answer may have equal series without their names, or for a match, and the other not.
            let are_same = |answer: &Answer| {
                let text = answer.outcome.as_ref().err();
                text.is_some_and(|text| text == SAME_LABELS || is_of_matching(text))
            };
            let of_choice = match case.difference.kind {
                Kind::Refused => are_same(case.theirs) || are_same(case.ours),
                _ => choices::may_follow(case),
            };
            choices::has_choice(&case.text) && of_choice
        },
        controls: choices::choices_within,
    },
    Rule {
        id: "which-duplicate",
        what: "which series and group the error names when a binary operator cannot match series",
        reason: "Prometheus names the first pair in the order of its storage",
        explains: |case| {
            let Some((theirs, ours)) = refusals(case) else { return false };
            let cut = |text: &str| without_between(text, "match group", "on the");
            let cut = |text: &str| without_between(&cut(text), "operation", "many-to-many");
            theirs.starts_with("found duplicate series") && cut(theirs) == cut(ours)
        },
        controls: none,
    },
    Rule {
        id: "which-error",
        what: "which of several errors of a query is reported",
        reason: "Prometheus reports the first error that occurs while it evaluates; Sandur reports errors of \
                 the plan first, then the first error that occurs",
        explains: |case| {
            let is_of_syntax = |text: &str| text.contains("parse error");
            let several = |(theirs, ours): (&str, &str)| {
                let is_earlier = |text: &&str| ours.contains(text) || theirs.contains(text);
                let is_of_plan = EARLIER.iter().any(is_earlier);
                !is_of_syntax(theirs) && !is_of_syntax(ours) && is_of_plan || are_of_samples(theirs, ours)
            };
            refusals(case).is_some_and(several)
        },
        controls: none,
    },
    Rule {
        id: "which-match",
        what: "whether a matching error names two series of the \"one\" side or of the \"many\" side",
        reason: "both sides are wrong, and Prometheus reports the first mistake in the order of its storage",
        explains: |case| {
            refusals(case).is_some_and(|(theirs, ours)| is_of_matching(theirs) && is_of_matching(ours))
        },
        controls: none,
    },
    Rule {
        id: "timestamp-offset",
        what: "`timestamp` of a selector with both `@` and `offset`",
        reason: "Prometheus ignores the offset, and looks up the time of `@` among samples that it fetched \
                 for another time",
        explains: |case| {
            ["timestamp(", "@", "offset"].iter().all(|part| case.text.contains(part))
                && !matches!(case.difference.kind, Kind::Words | Kind::ErrorType | Kind::Shape | Kind::Order)
        },
        controls: none,
    },
    Rule {
        id: "same-labelset",
        what: "`histogram_quantiles` whose label replaces a label that distinguishes series: Sandur rejects \
               it",
        reason: "Prometheus rejects it only if it is the result of the query; otherwise it continues with \
                 series that have equal labels",
        explains: |case| {
            let refusal = case.ours.outcome.as_ref().err();
            case.text.contains("histogram_quantiles") && refusal.is_some_and(|text| text == SAME_LABELS)
        },
        controls: none,
    },
    Rule {
        id: "forced-count",
        what: "the number of samples in the info about buckets that were made monotonic",
        reason: "Prometheus adds the count to itself whenever it merges the annotations of steps",
        explains: |case| {
            let counted = |texts: &[String]| -> BTreeSet<String> {
                texts.iter().map(|text| without_between(text, "over ", " samples")).collect()
            };
            case.difference.kind == Kind::Infos
                && case.theirs.infos.iter().any(|text| text.contains("fixed for monotonicity"))
                && counted(&case.theirs.infos) == counted(&case.ours.infos)
        },
        controls: none,
    },
    Rule {
        id: "last-note",
        what: "annotations about single pairs of a binary operator: Sandur returns all",
        reason: "Prometheus keeps only the last one of each step, regardless of the pair",
        explains: |case| {
            let (theirs, ours) = match case.difference.kind {
                Kind::Infos => (&case.theirs.infos, &case.ours.infos),
                Kind::Warnings => (&case.theirs.warnings, &case.ours.warnings),
                _ => return false,
            };
            let of_pairs = |text: &String| NOTES_OF_PAIRS.iter().any(|what| text.contains(what));
            // Of two operators with the same note, the last one determines its position.
            let is_noted = |text: &String| {
                let elsewhere = || ours.iter().any(|own| without_place(own) == without_place(text));
                ours.contains(text) || of_pairs(text) && elsewhere()
            };
            theirs.iter().all(is_noted) && ours.iter().filter(|text| !theirs.contains(text)).all(of_pairs)
        },
        controls: none,
    },
    Rule {
        id: "empty-buckets",
        what: "buckets of histograms that were empty and whose count became NaN; counter resets and \
               quantiles of negated histograms",
        reason: "all histograms of a Prometheus chunk have the same buckets, some of them empty: 0 times NaN \
                 is NaN, and an empty bucket is greater than a negative one, which a missing bucket is not",
        explains: |case| {
            match case.difference.kind {
                Kind::Values => {
                    let any = |names: [&str; 2]| names.iter().any(|name| case.text.contains(name));
                    let is_negated = case.text.contains("-(") && is_of_histograms(&case.text);
                    let detail = &case.difference.detail;
                    let is_reset = is_negated && any(["rate(", "increase("]);
                    detail.contains("Histogram") && (detail.contains("NaN") || is_reset)
                        || is_negated && any(["histogram_quantile", "histogram_fraction"])
                }
                // Texts of histograms, as label values.
                Kind::Series => {
                    let texts = |answer| -> BTreeSet<Names> {
                        labels_of(answer).into_iter().map(without_nan_buckets).collect()
                    };
                    case.text.contains("count_values") && texts(case.theirs) == texts(case.ours)
                }
                _ => false,
            }
        },
        controls: none,
    },
    Rule {
        id: "last-digits",
        what: "the last digits of trigonometric functions, powers and logarithms, if they show in labels of \
               `count_values`, in a warning, or after a subtraction or comparison, or if another function \
               amplifies them; and the number from which on exponentials are infinite",
        reason: "Go implements these functions itself, Sandur uses the C library; on amd64 Go's exponential \
                 is infinite from 709.44 on",
        explains: |case| {
            let is_rounded = ROUNDED.iter().any(|name| case.text.contains(name));
            let is_little = |(absolute, relative)| absolute < 1e-12 || relative < 1e-10;
            let differs_little = || distance(case).is_some_and(is_little);
            match case.difference.kind {
                Kind::Series => alike_labels(case) || is_rounded && has_other_values(case),
                Kind::Values => {
                    is_rounded && (differs_little() || depends_on_last_digits(&case.text) || overflows(case))
                }
                Kind::Samples => is_rounded && is_compared(&case.text) && depends_on_last_digits(&case.text),
                Kind::Warnings => is_rounded && alike_but_digits(&case.theirs.warnings, &case.ours.warnings),
                _ => false,
            }
        },
        controls: none,
    },
    Rule {
        id: "order-of-addition",
        what: "digits of `stddev` and `stdvar` after the sixth, and comparisons, remainders and periodic \
               functions of them",
        reason: "Sandur's sums are exact; Prometheus rounds after each addition, in the order in which \
                 series were created, which may vary",
        explains: |case| {
            let is_deviation = case.text.contains("stddev") || case.text.contains("stdvar");
            is_deviation
                && match case.difference.kind {
                    Kind::Series | Kind::Samples => is_compared(&case.text),
                    Kind::Values if case.text.contains(" bool ") => true,
                    Kind::Values if is_period_of(&case.text) => true,
                    _ => distance(case).is_some_and(|(_, relative)| relative < 1e-6),
                }
        },
        controls: none,
    },
    Rule {
        id: "no-zero-bucket",
        what: "`count_values` of histograms with custom buckets that were divided by zero: Sandur answers it",
        reason: "Prometheus writes the zero bucket, which these histograms do not have, because its count is \
                 NaN",
        explains: |case| {
            let refusal = case.theirs.outcome.as_ref().err();
            case.difference.kind == Kind::Refused
                && refusal.is_some_and(|text| text == "histograms with custom buckets have no zero bucket")
        },
        controls: none,
    },
    Rule {
        id: "changes-of-histograms",
        what: "`changes` of histograms: Prometheus counts more, which also affects labels that \
               `count_values` makes of the counts, and comparisons of them",
        reason: "the same histogram has different empty buckets in the next chunk, which counts as a change",
        explains: |case| {
            let is_chosen = case.text.contains("count_values") || is_compared(&case.text);
            let is_within = !case.text.starts_with("changes(");
            let has_changes = case.text.contains("changes(") && is_of_histograms(&case.text);
            has_changes
                && match case.difference.kind {
                    Kind::Values => true,
                    Kind::Series | Kind::Samples => is_chosen && is_within,
                    _ => false,
                }
        },
        controls: changes_within,
    },
    Rule {
        id: "mixed-schemas",
        what: "which metrics a warning about mixed exponential and custom buckets names",
        reason: "Prometheus names the second one in the order of series, which varies between runs",
        explains: |case| {
            let others = |texts: &[String]| -> BTreeSet<String> {
                texts.iter().filter(|text| !text.contains(MIXED_SCHEMAS)).cloned().collect()
            };
            case.difference.kind == Kind::Warnings
                && others(&case.theirs.warnings) == others(&case.ours.warnings)
        },
        controls: none,
    },
    Rule {
        id: "regex-words",
        what: "which part of an invalid regular expression the error names",
        reason: "Sandur detects an unknown Unicode class only after it has parsed the complete expression",
        explains: |case| {
            refusals(case).is_some_and(|(theirs, ours)| {
                [theirs, ours].iter().all(|text| text.contains("error parsing regexp"))
            })
        },
        controls: none,
    },
    Rule {
        id: "hexadecimal-e",
        what: "hexadecimal numbers with an `e` after their first digit: Sandur accepts all of them",
        reason: "Prometheus treats the `e` as the start of an exponent, and rejects the number if no \
                 exponent follows",
        explains: |case| {
            let refusal = case.theirs.outcome.as_ref().err();
            let is_number = |text: &String| text.to_lowercase().contains("duration syntax: \"0x");
            case.difference.kind == Kind::Refused && refusal.is_some_and(is_number)
        },
        controls: none,
    },
    Rule {
        id: "equal-values",
        what: "the order of series with equal values in `sort`, `sort_desc`, `topk` and `bottomk`",
        reason: "Prometheus's sort is not stable",
        explains: |case| {
            // Includes close values: two powers that differ in their last bit here may be equal there.
            let rows = |answer: &Answer| match &answer.outcome {
                Ok(Data::Vector(rows)) => rows.clone(),
                _ => Vec::new(),
            };
            let (theirs, ours) = (rows(case.theirs), rows(case.ours));
            let are_close = || theirs.iter().zip(&ours).all(|(a, b)| are_same_points(&a.1, &b.1));
            case.difference.kind == Kind::Order && theirs.len() == ours.len() && are_close()
        },
        controls: none,
    },
    Rule {
        id: "order-of-conditions",
        what: "whether the result of `absent` and `absent_over_time` has a label for which the selector \
               first excludes a value and then requires one: Sandur's has it",
        reason: "the last matcher of a label decides, and Prometheus's storage moves negative matchers to \
                 the end if it reads only one block",
        explains: |case| {
            let excludes = |label: &&str| {
                let has = |operator: &str| case.text.contains(&format!("{label}{operator}\""));
                (has("!=") || has("!~")) && has("=")
            };
            case.difference.kind == Kind::Series
                && case.text.contains("absent")
                && ["job", "instance", "code", "le"].iter().any(excludes)
        },
        controls: none,
    },
    Rule {
        id: "natural-order",
        what: "the position of series without the label in `sort_by_label` and `sort_by_label_desc`",
        reason: "Prometheus's comparison of a missing label with another one is inconsistent: each is less \
                 than the other",
        explains: |case| case.difference.kind == Kind::Order && case.text.starts_with("sort_by_label"),
        controls: none,
    },
];

/// Returns whether an expression selects series of native histograms.
fn is_of_histograms(text: &str) -> bool {
    ["native", "nan_", "custom", "mixed"].iter().any(|name| text.contains(name))
}

/// Returns whether an error is about series that match several others.
fn is_of_matching(text: &str) -> bool {
    text.starts_with("found duplicate series") || text.starts_with("multiple matches for labels")
}

/// Returns whether one error is about series that match several others, and the other about equal
/// series.
fn are_of_samples(theirs: &str, ours: &str) -> bool {
    let is_same = |text: &str| text == SAME_LABELS;
    is_same(theirs) && is_of_matching(ours) || is_of_matching(theirs) && is_same(ours)
}

/// The error for two series of an answer with the same labels.
const SAME_LABELS: &str = "vector cannot contain metrics with the same labelset";

/// Errors of a query that are detected before there is a sample.
const EARLIER: [&str; 7] = [
    "modifier can only be used with",
    "overflows int64",
    "underflows int64",
    "value is NaN",
    "invalid smoothing factor",
    "invalid trend factor",
    "invalid regular expression in label_replace",
];

/// Part of the warning about histograms that cannot be added.
const MIXED_SCHEMAS: &str = "mix of histograms with exponential and custom buckets schemas";

/// Parts of notes about a single pair of samples.
const NOTES_OF_PAIRS: [&str; 4] = [
    "incompatible sample types",
    "incompatible bucket layout",
    "conflicting counter resets",
    "mismatched custom buckets",
];

/// Returns whether the last digits of a large number are significant: in the remainder of a division, in
/// the position in a period, or in the slope of a line.
fn depends_on_last_digits(text: &str) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
    let is_large = has(&["^", "exp(", "sinh(", "cosh("]);
    text.contains('%') || (is_large && (is_period_of(text) || has(&["deriv(", "predict_linear("])))
}

/// Returns whether both answers have the same number of `count_values` labels, which are made of numbers
/// with significant last digits.
fn has_other_values(case: &Case<'_>) -> bool {
    case.text.contains("count_values")
        && depends_on_last_digits(&case.text)
        && labels_of(case.theirs).len() == labels_of(case.ours).len()
}

/// Returns a note without its position.
fn without_place(text: &str) -> &str {
    text.rsplit_once(" (").map_or(text, |(note, _)| note)
}

/// Returns queries for the `changes` within an expression whose series or samples differ.
fn changes_within(case: &Case<'_>) -> Vec<Ask> {
    if case.difference.kind == Kind::Values {
        return Vec::new();
    }
    let within = case.ask.expression.descendants().into_iter();
    let changes = within.filter(|part| part.to_string().starts_with("changes("));
    changes.flat_map(|part| choices::by_itself(case, &part)).collect()
}

/// Returns whether an expression has a comparison.
fn is_compared(text: &str) -> bool {
    ["==", "!=", ">", "<"].iter().any(|operator| text.contains(operator))
}

/// Returns whether one of the differing numbers is infinite or computed from infinity.
fn overflows(case: &Case<'_>) -> bool {
    let detail = &case.difference.detail;
    let grows = ["^", "exp(", "sinh(", "cosh("].iter().any(|name| case.text.contains(name));
    grows && (detail.contains("inf") || detail.contains("NaN"))
}

/// Returns whether a number is a remainder or a position in a period.
fn is_period_of(text: &str) -> bool {
    text.contains('%') || PERIODIC.iter().any(|name| text.contains(name))
}

/// Periodic functions.
const PERIODIC: [&str; 8] =
    ["sin(", "cos(", "tan(", "minute(", "hour(", "day_of_", "days_in_month(", "month("];

/// Returns whether texts differ only in digits, and only in few of them.
fn alike_but_digits<'a>(theirs: &'a [String], ours: &'a [String]) -> bool {
    let alike = |(a, b): (&'a String, &'a String)| {
        let differ = a.chars().zip(b.chars()).filter(|(a, b)| a != b);
        let differ: Vec<(char, char)> = differ.collect();
        a.len() == b.len()
            && differ.len() <= 3
            && differ.iter().all(|(a, b)| a.is_ascii_digit() && b.is_ascii_digit())
            || alike_numbers(a, b)
    };
    let only = |texts: &'a [String], others: &[String]| -> Vec<&'a String> {
        texts.iter().filter(|text| !others.contains(text)).collect()
    };
    let (theirs, ours) = (only(theirs, ours), only(ours, theirs));
    theirs.len() == ours.len() && theirs.into_iter().zip(ours).all(alike)
}

/// Returns whether texts are equal except for the last digits of the numbers in them.
fn alike_numbers(a: &str, b: &str) -> bool {
    let ((a_words, a_numbers), (b_words, b_numbers)) = (numbers_in(a), numbers_in(b));
    a_words == b_words
        && a_numbers.len() == b_numbers.len()
        && a_numbers.iter().zip(&b_numbers).all(|(a, b)| close(*a, *b))
}

/// Splits a text into the text without numbers, and the numbers.
fn numbers_in(text: &str) -> (String, Vec<f64>) {
    let (mut words, mut numbers, mut rest) = (String::new(), Vec::new(), text);
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[at..];
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let mut end = number.find(|c| !is_part(c)).unwrap_or(number.len());
        if let Some(exponent) = number[end..].strip_prefix('e') {
            let unsigned = exponent.trim_start_matches(['+', '-']);
            let length = digits(unsigned);
            end += if length > 0 { 1 + exponent.len() - unsigned.len() + length } else { 0 };
        }
        words.push_str(&rest[..at]);
        numbers.push(number[..end].parse().unwrap_or(f64::NAN));
        rest = &number[end..];
    }
    (words + rest, numbers)
}

/// Functions whose results are rounded differently in Go.
const ROUNDED: [&str; 13] = [
    "sin",
    "cos",
    "tan",
    "atan2",
    "exp",
    "ln",
    "log",
    "^",
    "deg",
    "rad",
    "sqrt",
    "exponential",
    "histogram_",
];

/// Returns the difference of the numbers that the description shows: absolute, and relative to the
/// larger one.
fn distance(case: &Case<'_>) -> Option<(f64, f64)> {
    let mut numbers = case.difference.detail.split("Float(").skip(1).map(|rest| {
        let (number, _) = rest.split_once(')')?;
        number.parse::<f64>().ok()
    });
    let (theirs, ours) = (numbers.next()??, numbers.next()??);
    let absolute = (theirs - ours).abs();
    Some((absolute, absolute / theirs.abs().max(ours.abs())))
}

fn refusals<'a>(case: &'a Case<'_>) -> Option<(&'a str, &'a str)> {
    Some((case.theirs.outcome.as_ref().err()?, case.ours.outcome.as_ref().err()?))
}

/// Removes the text between two words.
fn without_between(text: &str, from: &str, to: &str) -> String {
    let Some((before, rest)) = text.split_once(from) else { return text.to_owned() };
    let after = rest.split_once(to).map_or("", |(_, after)| after);
    format!("{before}{from}{to}{after}")
}

/// Returns whether both answers have series whose labels are equal except for the last digits of
/// numbers.
fn alike_labels(case: &Case<'_>) -> bool {
    let alike = |a: &str, b: &str| match (a.parse(), b.parse()) {
        (Ok(a), Ok(b)) => close(a, b),
        _ => alike_numbers(a, b),
    };
    let (theirs, ours) = (labels_of(case.theirs), labels_of(case.ours));
    case.text.contains("count_values")
        && theirs.len() == ours.len()
        && theirs.iter().all(|a| {
            ours.iter().any(|b| a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| alike(a, b)))
        })
}

/// Returns the labels of the series of an answer.
fn labels_of(answer: &Answer) -> Vec<Names> {
    match &answer.outcome {
        Ok(Data::Vector(rows) | Data::Matrix(rows)) => rows.iter().map(|row| row.0.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Removes buckets with a count of NaN from texts of histograms in labels.
fn without_nan_buckets(names: Names) -> Names {
    let without = |text: String| match text.starts_with("{count:") {
        true => text
            .trim_end_matches('}')
            .split(", ")
            .filter(|part| !(part.starts_with(['[', '(']) && part.ends_with(":NaN")))
            .collect::<Vec<_>>()
            .join(", "),
        false => text,
    };
    names.into_iter().map(|(name, text)| (name, without(text))).collect()
}

/// Returns the rules as a table in Markdown.
pub fn table() -> String {
    let mut text = "| rule | what differs | why |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        text.push_str(&format!("| `{}` | {} | {} |\n", rule.id, rule.what, rule.reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_last_digits_are_alike() {
        assert_eq!(
            numbers_in("got 1.5e-3 of 7 (1:2)"),
            ("got  of  (:)".to_owned(), vec![1.5e-3, 7.0, 1.0, 2.0])
        );
        assert_eq!(numbers_in("2 e 3ex"), (" e ex".to_owned(), vec![2.0, 3.0]));
        assert!(alike_numbers("got 9.999999999999996e-181", "got 1.0000000000000001e-180"));
        assert!(!alike_numbers("got 9.9e-181", "got 1e-180"));
        assert!(!alike_numbers("got 1", "had 1"));
    }

    #[test]
    fn the_committed_page_lists_every_rule() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/prometheus-differences.md");
        let page = std::fs::read_to_string(path).unwrap();
        let remedy = "stale: replace the table by the output of `cargo run -p sandur-differential -- \
                      prometheus --rules`";
        assert!(page.contains(&table()), "{remedy}");
    }
}

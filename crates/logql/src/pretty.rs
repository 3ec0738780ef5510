//! Lays out a query over several lines, for `format_query`.
//!
//! The layout is Loki's. A part that fits into [`WIDTH_MAX`] columns stays on one line in its `Display`
//! form. Any other part is split, with its components indented by two more columns. In three places Loki's
//! layout changes the meaning of the query, and ours differs: it keeps the alternatives (`or`) of a line
//! filter, the parentheses that a split operand needs, and the `by ()` of a range function.

use std::fmt::{self, Display, Write};
use std::sync::Arc;

use sandur_model::go_text::{format_float, format_prometheus_duration, quote};

use crate::ast::{
    BinaryOp, Cardinality, Chain, Expr, LabelReplace, Link, LogExpr, MetricExpr, RangeAggregation, Unwrap,
    VectorAggregation, offset_text,
};
use crate::grouping::Grouping;
use crate::stage::node::StageNode;

/// The longest text on one line, in bytes.
const WIDTH_MAX: usize = 100;

/// Lays out the query; the result parses to the same query.
pub fn pretty(expr: &Expr) -> String {
    match expr {
        Expr::Log(log) => of_log(log, 0),
        Expr::Metric(metric) => of_metric(metric, 0),
    }
}

fn indent(level: usize) -> String {
    "  ".repeat(level)
}

/// The indented text of a part, if it fits on one line.
fn short(part: &impl Display, level: usize) -> Option<String> {
    one_line(part).map(|text| indent(level) + &text)
}

/// The text of a part, if it fits on one line. Writing stops when it does not; otherwise each level of a
/// query would cost as much as the complete query.
fn one_line(part: &impl Display) -> Option<String> {
    let mut line = Line(String::new());
    write!(line, "{part}").is_ok().then_some(line.0)
}

/// Text of at most one line.
struct Line(String);

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > WIDTH_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn of_log(log: &LogExpr, level: usize) -> String {
    if let Some(text) = short(log, level) {
        return text;
    }
    let selector = LogExpr { matchers: log.matchers.clone(), stages: Vec::new() };
    let mut lines = vec![format!("{}{selector}", indent(level))];
    if log.stages.is_empty() {
        return lines.remove(0);
    }
    // Consecutive line filters share a line as long as they fit.
    let mut rest = log.stages.as_slice();
    while let Some(first) = rest.first() {
        let filters = rest.iter().take_while(|stage| stage.line_filter().is_some()).count();
        if filters > 0 {
            of_filters(&rest[..filters], level + 1, &mut lines);
            rest = &rest[filters..];
        } else {
            lines.push(format!("{}{first}", indent(level + 1)));
            rest = &rest[1..];
        }
    }
    lines.join("\n")
}

/// The filters that fit share the first line; each other filter has its own line.
fn of_filters(filters: &[Arc<dyn StageNode>], level: usize, lines: &mut Vec<String>) {
    let texts: Vec<String> = filters.iter().map(|filter| filter.to_string()).collect();
    let widths = texts.iter().scan(0, |width, text| {
        *width += text.len() + usize::from(*width > 0);
        Some(*width)
    });
    let together = widths.take_while(|width| *width <= WIDTH_MAX).count().max(1);
    lines.push(indent(level) + &texts[..together].join(" "));
    lines.extend(texts[together..].iter().map(|text| indent(level) + text));
}

fn of_metric(metric: &MetricExpr, level: usize) -> String {
    match metric {
        MetricExpr::Range(range) => of_range(range, level),
        MetricExpr::Vector(vector) => of_vector(vector, level),
        MetricExpr::Chain(chain) => of_chain(chain, level),
        MetricExpr::LabelReplace(replace) => of_label_replace(replace, level),
        MetricExpr::Literal(_) | MetricExpr::VectorOf(_) => format!("{}{metric}", indent(level)),
    }
}

fn of_range(range: &RangeAggregation, level: usize) -> String {
    if let Some(text) = short(range, level) {
        return text;
    }
    let mut text = format!("{}{}(\n", indent(level), range.function.name);
    if let Some(parameter) = range.parameter {
        text += &format!("{}{},\n", indent(level + 1), format_float(parameter));
    }
    text += &of_log(&range.log, level + 1);
    if let Some(unwrap) = &range.unwrap {
        text += &of_unwrap(unwrap, level + 2);
    }
    text += &format!(" [{}]", format_prometheus_duration(range.range_ns));
    if range.offset_ns != 0 {
        text += &format!(" offset {}", offset_text(range.offset_ns));
    }
    text + &format!("\n{}){}", indent(level), of_grouping(range.grouping.as_ref()))
}

fn of_unwrap(unwrap: &Unwrap, level: usize) -> String {
    let bare = Unwrap { filters: Vec::new(), ..unwrap.clone() };
    let mut text = format!("\n{}{bare}", indent(level));
    for filter in &unwrap.filters {
        text += &format!("\n{}{filter}", indent(level));
    }
    text
}

fn of_grouping(grouping: Option<&Grouping>) -> String {
    grouping.map_or_else(String::new, |grouping| {
        let word = if grouping.without { "without" } else { "by" };
        format!(" {word} ({})", grouping.labels.join(", "))
    })
}

fn of_vector(vector: &VectorAggregation, level: usize) -> String {
    if let Some(text) = short(vector, level) {
        return text;
    }
    let grouping = of_grouping(vector.grouping.as_ref());
    let mut arguments: Vec<String> =
        vector.parameter.iter().map(|parameter| format!("{}{parameter}", indent(level + 1))).collect();
    arguments.push(of_metric(&vector.inner, level + 1));
    of_call(&format!("{}{grouping}", vector.function.name), &arguments, level)
}

fn of_call(name: &str, arguments: &[String], level: usize) -> String {
    format!("{0}{name}(\n{1}\n{0})", indent(level), arguments.join(",\n"))
}

fn of_label_replace(replace: &LabelReplace, level: usize) -> String {
    if let Some(text) = short(replace, level) {
        return text;
    }
    let mut arguments = vec![of_metric(&replace.inner, level + 1)];
    let texts = [&replace.destination, &replace.replacement, &replace.source, &replace.pattern];
    arguments.extend(texts.iter().map(|text| indent(level + 1) + &quote(text)));
    of_call("label_replace", &arguments, level)
}

/// Lays out a chain of operators. From right to left, each operator is split off and its left side indented
/// by two columns, until the rest fits on one line.
fn of_chain(chain: &Chain, level: usize) -> String {
    let on_one_line = links_on_one_line(chain);
    let opened = &chain.links[on_one_line..];
    // The indentation of each split operator, last one first, and whether it needs parentheses.
    let mut levels = Vec::with_capacity(opened.len());
    let (mut at, mut outer) = (level, None);
    for link in opened.iter().rev() {
        let bracketed = outer.is_some_and(|outer| binds_less(link.op, outer, Side::Left));
        at += usize::from(bracketed);
        levels.push((at, bracketed));
        at += 1;
        outer = Some(link.op);
    }
    let mut text = String::new();
    for (level, _) in levels.iter().filter(|(_, bracketed)| *bracketed) {
        let _ = writeln!(text, "{}(", indent(level - 1));
    }
    text += &match (on_one_line, opened.first()) {
        (0, Some(link)) => of_operand(&chain.first, at, |inner| binds_less(inner, link.op, Side::Left)),
        _ => {
            let links = chain.links[..on_one_line].to_vec();
            indent(at) + &Chain { first: chain.first.clone(), links }.to_string()
        }
    };
    for (link, (level, bracketed)) in opened.iter().zip(levels.into_iter().rev()) {
        let right = of_operand(&link.right, level + 1, |inner| binds_less(inner, link.op, Side::Right));
        let _ = write!(text, "\n{}{}\n{right}", indent(level), operator(link));
        if bracketed {
            let _ = write!(text, "\n{})", indent(level - 1));
        }
    }
    text
}

/// How many operators at the start of a chain fit on one line.
fn links_on_one_line(chain: &Chain) -> usize {
    let mut width = one_line(&chain.first).map_or(WIDTH_MAX, |text| text.len());
    let fits = |link: &&Link| {
        // A space, the operator with its right operand, and the parentheses around all of it.
        width += one_line(link).map_or(WIDTH_MAX, |text| text.len()) + 3;
        width <= WIDTH_MAX
    };
    chain.links.iter().take_while(fits).count()
}

/// Lays out an operand; a split one with lower precedence than its operator gets parentheses.
fn of_operand(operand: &MetricExpr, level: usize, binds_less: impl Fn(BinaryOp) -> bool) -> String {
    match operand {
        MetricExpr::Chain(inner)
            if one_line(&**inner).is_none() && inner.links.last().is_some_and(|last| binds_less(last.op)) =>
        {
            format!("{0}(\n{1}\n{0})", indent(level), of_chain(inner, level + 1))
        }
        _ => of_metric(operand, level),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Whether an operand with the operator `inner` needs parentheses.
fn binds_less(inner: BinaryOp, outer: BinaryOp, side: Side) -> bool {
    let tie = if outer.is_right_associative() { Side::Left } else { Side::Right };
    let (inner, outer) = (inner.spec().strength, outer.spec().strength);
    inner < outer || (inner == outer && side == tie)
}

/// The operator with its modifiers.
fn operator(link: &Link) -> String {
    let mut text = link.op.as_str().to_owned();
    if link.return_bool {
        text += " bool";
    }
    let matching = &link.matching;
    if !matching.explicit {
        return text;
    }
    let word = if matching.on { "on" } else { "ignoring" };
    text += &format!(" {word} ({})", matching.labels.join(", "));
    let group = match matching.cardinality {
        Cardinality::OneToOne => return text,
        Cardinality::ManyToOne => " group_left",
        Cardinality::OneToMany => " group_right",
    };
    text += group;
    if !matching.include.is_empty() {
        text += &format!(" ({})", matching.include.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(query: &str) -> String {
        pretty(&crate::parse(query).unwrap())
    }

    #[test]
    fn short_queries_stay_on_one_line() {
        for (query, expected) in [
            ("{a=\"b\"}|=\"x\"|json", r#"{a="b"} |= "x" | json"#),
            ("sum by(a)(rate({a=\"b\"}[5m]))", r#"sum by (a) (rate({a="b"}[5m]))"#),
            ("1 + 2", "3"),
        ] {
            assert_eq!(formatted(query), expected);
        }
    }

    #[test]
    fn long_queries_are_split() {
        let log = concat!(
            r#"{cluster="ops-tools1", namespace="loki-dev", job="loki-dev/query-frontend"} "#,
            r#"|= "metrics.go" != "out of order" | logfmt | level != "error""#
        );
        assert_eq!(
            formatted(log),
            concat!(
                "{cluster=\"ops-tools1\", namespace=\"loki-dev\", job=\"loki-dev/query-frontend\"}\n",
                "  |= \"metrics.go\" != \"out of order\"\n",
                "  | logfmt\n",
                "  | level!=\"error\""
            )
        );
        let metric = format!(
            r#"topk(10, sum by (a, b) (quantile_over_time(
                0.99, {log} | unwrap took | __error__="" [5m] offset 1h)))"#
        );
        assert_eq!(
            formatted(&metric),
            concat!(
                "topk(\n",
                "  10,\n",
                "  sum by (a, b)(\n",
                "    quantile_over_time(\n",
                "      0.99,\n",
                "      {cluster=\"ops-tools1\", namespace=\"loki-dev\", job=\"loki-dev/query-frontend\"}\n",
                "        |= \"metrics.go\" != \"out of order\"\n",
                "        | logfmt\n",
                "        | level!=\"error\"\n",
                "        | unwrap took\n",
                "        | __error__=\"\" [5m] offset 1h\n",
                "    )\n",
                "  )\n",
                ")"
            )
        );
    }

    #[test]
    fn operators_have_their_own_lines_and_keep_their_operands() {
        let rate = |app: &str| {
            format!(r#"sum by (app,level) (rate({{app="{app}", env="production", zone="eu"}}[5m]))"#)
        };
        let query = format!(
            "({} + {}) * on (app, level) group_left (team) {}",
            rate("one"),
            rate("two"),
            rate("three")
        );
        let line = |app: &str, level: usize| format!("{}{}", "  ".repeat(level), rate(app));
        let expected = [
            "  (".to_owned(),
            line("one", 3),
            "    +".to_owned(),
            line("two", 3),
            "  )".to_owned(),
            "* on (app, level) group_left (team)".to_owned(),
            line("three", 1),
        ];
        assert_eq!(formatted(&query), expected.join("\n"));
    }

    /// For random queries, the layout parses to the same query, and laying it out again changes nothing.
    #[test]
    fn the_layout_keeps_the_meaning() {
        const STAGES: [&str; 16] = [
            r#"|= "error""#,
            r#"!= "debug" or "trace""#,
            r#"|~ "(?i)time.?out" or "refused by the peer of the connection that was opened first""#,
            r#"|> "<_> took <_>""#,
            r#"|= ip("10.0.0.0/8")"#,
            "| json",
            r#"| json status="http.status", took="http.took""#,
            "| logfmt --strict --keep-empty",
            r#"| regexp "(?P<user>\\w+)@(?P<host>[a-z.]+)""#,
            r#"| pattern "<ip> - <_> [<time>]""#,
            r#"| status >= 500 or took > 1m30s and size < 5MB"#,
            r#"| line_format "{{.status}} {{.took | printf \"%10s\"}}""#,
            r#"| label_format a=b, c="{{.d}}""#,
            "| decolorize",
            r#"| drop a, b="c""#,
            r#"| keep d, e="f""#,
        ];
        const RANGES: [&str; 5] =
            ["rate", "count_over_time", "bytes_rate", "absent_over_time", "bytes_over_time"];
        const OPERATORS: [&str; 15] =
            ["or", "and", "unless", "==", "!=", "<", "<=", ">", ">= bool", "+", "-", "*", "/", "%", "^"];
        let mut state = 7u64;
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        fn log(next: &mut impl FnMut(usize) -> usize) -> String {
            let mut text = r#"{app="api", env=~"prod.*"}"#.to_owned();
            for _ in 0..next(7) {
                text += &format!(" {}", STAGES[next(STAGES.len())]);
            }
            text
        }
        fn metric(next: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
            match next(if depth == 0 { 2 } else { 6 }) {
                0 => format!("{}({} [5m])", RANGES[next(RANGES.len())], log(next)),
                1 => format!(
                    r#"avg_over_time({} | unwrap duration(took) | __error__="" [1h] offset 5m) by (app)"#,
                    log(next)
                ),
                2 => format!("sum by (app, env) ({})", metric(next, depth - 1)),
                3 => format!("topk(5, {}) without (pod)", metric(next, depth - 1)),
                4 => format!(r#"label_replace({}, "a", "$1", "b", "(.*)")"#, metric(next, depth - 1)),
                _ => {
                    let operator = OPERATORS[next(OPERATORS.len())];
                    let matching = ["", " on (app)", " ignoring (pod)"][next(3)];
                    format!(
                        "({}) {operator}{matching} ({})",
                        metric(next, depth - 1),
                        metric(next, depth - 1)
                    )
                }
            }
        }
        let mut opened = 0;
        for n in 0..400 {
            let query = if n % 4 == 0 { log(&mut next) } else { metric(&mut next, 4) };
            let parsed = crate::parse(&query).unwrap_or_else(|e| panic!("{query}: {e}"));
            let text = pretty(&parsed);
            let again = crate::parse(&text).unwrap_or_else(|e| panic!("{query}\n{text}: {e}"));
            assert_eq!(again.to_string(), parsed.to_string(), "{text}");
            assert_eq!(pretty(&again), text);
            opened += usize::from(text.contains('\n'));
        }
        assert!(opened > 100, "only {opened} queries were long");
    }
}

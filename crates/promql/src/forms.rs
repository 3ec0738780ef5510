//! Every construct by which a query can grow long or deep, derived from the tables of the language. Tests
//! and fuzzers grow these, so that a new operator or function is covered without a new test.

use crate::check::{is_comparison, is_set};
use crate::functions::FUNCTIONS;
use crate::parser::binding;
use crate::token::{Class, Kind};
use crate::value_type::Type;

/// A query with a part that can be repeated.
pub struct Form {
    /// The name of the construct.
    pub name: String,
    parts: [String; 5],
}

impl Form {
    fn new(name: impl Into<String>, parts: [&str; 5]) -> Self {
        Self { name: name.into(), parts: parts.map(str::to_owned) }
    }

    /// The query with its part repeated `count` times.
    pub fn query(&self, count: usize) -> String {
        let [head, piece, middle, closing, tail] = &self.parts;
        [head.as_str(), &piece.repeat(count), middle, &closing.repeat(count), tail].concat()
    }

    /// The query's text in five parts, in order.
    pub fn texts(&self) -> [&str; 5] {
        [0, 1, 2, 3, 4].map(|n| self.parts[n].as_str())
    }
}

/// All forms.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for op in Kind::ALL.iter().copied().filter(|op| binding(*op).is_some()) {
        operator(&mut forms, op);
    }
    for function in FUNCTIONS {
        for (n, kind) in function.args.iter().enumerate() {
            call(&mut forms, function.name, function.args, n, *kind);
        }
    }
    for op in Kind::ALL.iter().filter(|op| op.class() == Class::Aggregator) {
        let param = match op {
            Kind::CountValues => "\"v\", ",
            op if crate::parser::takes_parameter(*op) => "1, ",
            _ => "",
        };
        let piece = format!("{}({param}", op.text());
        forms.push(Form::new(format!("{} within", op.text()), ["", &piece, "a", ")", ""]));
    }
    texts(&mut forms);
    forms
}

fn operator(forms: &mut Vec<Form>, op: Kind) {
    let text = op.text();
    let mut operands = vec!["a", "on (x) a", "ignoring (x) a"];
    if !is_set(op) {
        operands.extend(["1", "-1", "on (x) group_left (y) a", "fill (0) a"]);
    }
    if is_comparison(op) {
        operands.push("bool a");
    }
    for operand in operands {
        let link = format!(" {text} {operand}");
        forms.push(Form::new(format!("row of{link}"), ["a", &link, "", "", ""]));
    }
    forms.push(Form::new(format!("{text} to the right"), ["", &format!("a {text} ("), "a", ")", ""]));
    forms.push(Form::new(format!("{text} before"), ["", &format!("a {text} "), "a", "", ""]));
}

fn call(forms: &mut Vec<Form>, name: &str, args: &[Type], at: usize, kind: Type) {
    let text = |kind: &Type| match kind {
        Type::Scalar => "0.5",
        Type::Vector => "a",
        Type::Matrix => "a[1m]",
        Type::String => "\"x\"",
    };
    let before: String = args[..at].iter().map(|kind| format!("{}, ", text(kind))).collect();
    let after: String = args[at + 1..].iter().map(|kind| format!(", {}", text(kind))).collect();
    let head = format!("{name}({before}");
    let (inner, closing) = match kind {
        Type::Vector => ("a", format!("{after})")),
        Type::Scalar => ("0.5", format!("{after})")),
        Type::Matrix => ("a", format!("[5m:1m]{after})")),
        Type::String => return,
    };
    forms.push(Form::new(format!("{name} within its argument {at}"), ["", &head, inner, &closing, ""]));
    let more = format!(", {}", text(&kind));
    let call = format!("{name}({before}{}", text(&kind));
    forms.push(Form::new(format!("arguments of {name}"), [&call, &more, &after, "", ")"]));
}

fn texts(forms: &mut Vec<Form>) {
    for (name, parts) in [
        ("parentheses", ["", "(", "a", ")", ""]),
        ("open parentheses", ["", "(", "", "", ""]),
        ("minus", ["", "-", "a", "", ""]),
        ("minus of parentheses", ["", "-(", "a", ")", ""]),
        ("plus and minus", ["", "+-", "1", "", ""]),
        ("subqueries", ["", "", "a", "[1m:1m]", ""]),
        ("subqueries of functions", ["", "rate(", "a", "[1m:30s])", ""]),
        ("offsets", ["a", " offset 1m", "", "", ""]),
        ("times", ["a", " @ 1", "", "", ""]),
        ("anchored", ["a[1m]", " anchored", "", "", ""]),
        ("matchers", ["{", "x=\"y\",", "z=\"1\"", "", "}"]),
        ("regexes", ["{", "x=~\"y.*\",", "z=\"1\"", "", "}"]),
        ("alternatives", ["{x=~\"", "a|", "b", "", "\"}"]),
        ("name", ["a", "a", "", "", ""]),
        ("labels of by", ["sum by (", "x,", "y", "", ") (a)"]),
        ("labels of on", ["a + on (", "x,", "y", "", ") a"]),
        ("digits", ["", "1", "", "", ""]),
        ("durations", ["a[", "1m + ", "1m", "", "]"]),
        ("durations in parentheses", ["a[", "(", "1m", ")", "]"]),
        ("negative durations", ["a offset ", "-(", "1m", ")", ""]),
        ("powers of durations", ["a[", "1 ^ ", "1m", "", "]"]),
        ("largest durations", ["a[", "max_of(1m, ", "1m", ")", "]"]),
        ("escapes", ["\"", "\\u00e9", "", "", "\""]),
        ("blank", ["a", " ", "", "", ""]),
        ("comments", ["a", "#x\n", "", "", ""]),
        ("commas", ["sum(a", ",", "", "", ")"]),
        ("brackets", ["a", "[", "", "", ""]),
        ("braces", ["a", "{", "", "", ""]),
    ] {
        forms.push(Form::new(name, parts));
    }
}

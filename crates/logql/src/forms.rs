//! Every construct by which a query can grow long or deep, derived from the tables of the language. Tests
//! and fuzzers grow these, so that a new operator, stage or function is covered without a new test.

use crate::ast::{BinaryOp, OPERATORS};
use crate::range::{self, Argument, UnwrapUse};
use crate::stage::STAGES;
use crate::stage::line_filter::LINE_FILTERS;
use crate::template;
use crate::vector;

/// A query with a part that can be repeated.
pub struct Form {
    /// The name of the construct.
    pub name: String,
    head: String,
    piece: String,
    middle: String,
    closing: String,
    tail: String,
}

impl Form {
    fn new(name: impl Into<String>, [head, piece, middle, closing, tail]: [&str; 5]) -> Self {
        Self {
            name: name.into(),
            head: head.to_owned(),
            piece: piece.to_owned(),
            middle: middle.to_owned(),
            closing: closing.to_owned(),
            tail: tail.to_owned(),
        }
    }

    /// The query with its part repeated `count` times.
    pub fn query(&self, count: usize) -> String {
        let Self { head, piece, middle, closing, tail, .. } = self;
        [head.as_str(), &piece.repeat(count), middle, &closing.repeat(count), tail].concat()
    }

    /// The largest number of repetitions for a query of at most this many bytes.
    pub fn fitting(&self, bytes: usize) -> usize {
        let fixed = self.head.len() + self.middle.len() + self.tail.len();
        bytes.saturating_sub(fixed) / (self.piece.len() + self.closing.len()).max(1)
    }

    /// The query's text in five parts, in order.
    pub fn texts(&self) -> [&str; 5] {
        [&self.head, &self.piece, &self.middle, &self.closing, &self.tail]
    }
}

const RATE: &str = r#"count_over_time({app="a"}[1m])"#;

/// All forms.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    operators(&mut forms);
    functions(&mut forms);
    stages(&mut forms);
    conditions(&mut forms);
    templates(&mut forms);
    texts(&mut forms);
    forms
}

fn operators(forms: &mut Vec<Form>) {
    for spec in OPERATORS {
        let op = spec.text;
        let mut operands = vec!["vector(1)", "on (app) vector(1)"];
        if spec.op.is_comparison() {
            operands.push("bool vector(1)");
        }
        if !spec.op.is_set() {
            operands.extend(["1", "-1"]);
        }
        for operand in operands {
            let link = format!(" {op} {operand}");
            forms.push(Form::new(format!("row of{link}"), [RATE, &link, "", "", ""]));
        }
        let link = format!(" {op} vector(1)");
        let bare = format!("vector(1) {op} ");
        forms.push(Form::new(format!("right sides of {op}"), ["", &format!("{bare}("), RATE, ")", ""]));
        forms.push(Form::new(format!("left sides of {op}"), ["", "(", RATE, &format!("{link})"), ""]));
        forms.push(Form::new(format!("bare right sides of {op}"), ["", &bare, RATE, "", ""]));
    }
    // Operators in the order of rising precedence.
    let rising =
        [BinaryOp::Or, BinaryOp::And, BinaryOp::Less, BinaryOp::Add, BinaryOp::Divide, BinaryOp::Power];
    let ladder: String = rising.iter().map(|op| format!("vector(1) {} ", op.as_str())).collect();
    forms.push(Form::new("chains of operators of rising precedence", ["", &ladder, RATE, "", ""]));
    let opened = format!("{ladder}(");
    forms.push(Form::new("operators of rising precedence, nested", ["", &opened, RATE, ")", ""]));
    forms.push(Form::new("parentheses", ["", "(", RATE, ")", ""]));
    forms.push(Form::new("numbers in parentheses", ["", "(1 + ", "1", ")", ""]));
    forms.push(Form::new("signs", ["1", " - -1", "", "", ""]));
    forms.push(Form::new(
        "labels of on",
        [&format!("{RATE} + on (app"), ", app", "", "", &format!(") {RATE}")],
    ));
}

fn functions(forms: &mut Vec<Form>) {
    for function in vector::FUNCTIONS {
        let count = if function.takes_count { "3, " } else { "" };
        let call = format!("{}({count}", function.name);
        forms.push(Form::new(format!("{} of itself", function.name), ["", &call, RATE, ")", ""]));
        let in_row = format!(" or {call}{RATE})");
        forms.push(Form::new(format!("row of {}", function.name), [RATE, &in_row, "", "", ""]));
        if !function.sorts && function.name != "approx_topk" {
            let head = format!("{} by (app", function.name);
            let tail = format!(") ({count}{RATE})");
            forms.push(Form::new(format!("labels of {}", function.name), [&head, ", app", "", "", &tail]));
        }
    }
    for function in range::FUNCTIONS.iter().copied().flatten() {
        let number = if function.argument == Argument::Number { "0.5, " } else { "" };
        let unwrap = if function.unwrap == UnwrapUse::Required { "| logfmt | unwrap n " } else { "" };
        let (head, tail) = (format!("{}({number}", function.name), format!("{{app=\"a\"}} {unwrap}[1m]"));
        let parentheses = [&head, "(", &tail, ")", ")"];
        forms.push(Form::new(format!("parentheses in {}", function.name), parentheses));
        let in_row = format!(" or {head}{tail})");
        forms.push(Form::new(format!("row of {}", function.name), [RATE, &in_row, "", "", ""]));
    }
    let replace = [r#"label_replace("#, r#", "app", "$1", "app", "(.*)")"#];
    forms.push(Form::new("label_replace of itself", ["", replace[0], RATE, replace[1], ""]));
    let both = "sum(label_replace(-1 * (";
    let ends = r#"), "app", "$1", "app", "(.*)"))"#;
    forms.push(Form::new("functions of all kinds", ["", both, RATE, ends, ""]));
}

fn stages(forms: &mut Vec<Form>) {
    let mut in_row = |name: &str, stage: &str| {
        let piece = format!(" {stage}");
        forms.push(Form::new(format!("stages {name}"), [r#"{app="a"}"#, &piece, "", "", ""]));
        let ranged = [r#"rate({app="a"}"#, &piece, "", "", "[1m])"];
        forms.push(Form::new(format!("stages {name} of a window"), ranged));
    };
    for spec in STAGES {
        spec.examples.iter().for_each(|example| in_row(spec.name, example));
    }
    for operator in LINE_FILTERS {
        in_row(operator, &format!("{operator} \"n\""));
        in_row(operator, &format!("{operator} \"\""));
    }
    in_row("|= ip", r#"|= ip("10.0.0.0/8")"#);
    in_row("label filter", r#"| n="1""#);
    for operator in LINE_FILTERS {
        let head = format!("{{app=\"a\"}} {operator} \"n\"");
        let alternatives = [&head, " or \"n\"", "", "", ""];
        forms.push(Form::new(format!("alternatives of {operator}"), alternatives));
    }
    // The last argument of each stage's example, repeated; a stage without a list refuses it.
    for spec in STAGES {
        for example in spec.examples {
            let Some((_, last)) = example.rsplit_once([' ', ',']) else { continue };
            let head = format!("{{app=\"a\"}} {example}");
            let list = [&head, &format!(", {last}"), "", "", ""];
            forms.push(Form::new(format!("list of {example}"), list));
        }
    }
    let unwrapped = [r#"sum_over_time({app="a"} | logfmt | unwrap n"#, r#" | n="1""#, "", "", "[1m])"];
    forms.push(Form::new("filters after unwrap", unwrapped));
    forms.push(Form::new("matchers", [r#"{app="a""#, r#", app="a""#, "", "", "}"]));
}

fn conditions(forms: &mut Vec<Form>) {
    let head = r#"{app="a"} | logfmt | n>0"#;
    for connective in [" or ", " and ", ", ", " "] {
        for test in ["n>0", "n>5s", "n>5KB", "n=ip(\"::1\")", "n!=\"y\""] {
            let piece = format!("{connective}{test}");
            forms.push(Form::new(format!("row of{piece}"), [head, &piece, "", "", ""]));
        }
        let nested = [r#"{app="a"} | logfmt | "#, &format!("n=9{connective}("), "n>0", ")", ""];
        forms.push(Form::new(format!("right sides of{connective}"), nested));
        let left = [r#"{app="a"} | logfmt | "#, "(", "n>0", &format!("{connective}n=9)"), ""];
        forms.push(Form::new(format!("left sides of{connective}"), left));
    }
    forms.push(Form::new("row of expressions", [head, " or n=~`x.*`", "", "", ""]));
    let mixed = " or n=9 and n=8, n=7 or (n=6) n=5 and n=4";
    forms.push(Form::new("conditions of all kinds", [head, mixed, "", "", ""]));
    forms.push(Form::new("parentheses of a condition", [r#"{app="a"} | "#, "(", "n>0", ")", ""]));
}

fn templates(forms: &mut Vec<Form>) {
    let mut template = |name: &str, [head, piece, middle, closing, tail]: [&str; 5]| {
        let head = format!("{{app=\"a\"}} | logfmt | line_format `{head}");
        let tail = format!("{tail}`");
        forms.push(Form::new(format!("template: {name}"), [&head, piece, middle, closing, &tail]));
    };
    template("actions", ["", "{{.n}}", "", "", ""]);
    for word in ["if .n", "with .n", "range $x := .n | len"] {
        let open = format!("{{{{{word}}}}}");
        template(word, ["", &open, "x", "{{end}}", ""]);
        let never = format!("{{{{{}}}}}a{{{{else}}}}", word.replace(".n", "`x` | eq .n").replace('`', "\""));
        template(&format!("else of {word}"), ["", &never, "x", "{{end}}", ""]);
    }
    template("else if", ["{{if false}}a", "{{else if false}}b", "{{else}}c", "", "{{end}}"]);
    template("else with", ["{{with false}}a", "{{else with false}}b", "{{else}}c", "", "{{end}}"]);
    template("else of range", ["", "{{range 0}}a{{else}}", "x", "{{end}}", ""]);
    template("blocks", ["", "{{block \"a\" .}}", "x", "{{end}}", ""]);
    template("definitions", ["", "{{define \"a\"}}x{{end}}", "{{template \"a\"}}", "", ""]);
    let again =
        ["{{define \"a\"}}", "{{if true}}", "{{template \"a\"}}", "{{end}}", "{{end}}{{template \"a\"}}"];
    template("a block that runs itself", again);
    let groups =
        ["{{define \"a\"}}{{if true}}", "{{with (", "(1)", ")}}x{{end}}", "{{end}}{{end}}{{template \"a\"}}"];
    template("parentheses of a block", groups);
    template("parentheses", ["{{", "(", ".n", ")", "}}"]);
    template("parentheses with fields", ["{{", "(", ".n", ").a", "}}"]);
    template("fields", ["{{.n", ".a", "", "", "}}"]);
    template("variables", ["", "{{$x := .n}}", "{{$x}}", "", ""]);
    template("comments", ["", "{{/* x */}}", "", "", ""]);
    for function in template::FUNCTIONS.iter().copied().flatten() {
        let (least, most) = function.arguments;
        let before = " .n".repeat(least.max(1) - 1);
        template(
            &format!("{} of itself", function.name),
            ["{{", &format!("{}{before} (", function.name), ".n", ")", "}}"],
        );
        template(
            &format!("{} in a pipeline", function.name),
            ["{{.n", &format!(" | {}{before} | print | trunc 9", function.name), "", "", "}}"],
        );
        if most > 9 {
            template(
                &format!("arguments of {}", function.name),
                [&format!("{{{{{}", function.name), " .n", "", "", "}}"],
            );
        }
    }
}

/// Long texts with their own grammars: regular expressions, patterns, paths, white space, comments.
fn texts(forms: &mut Vec<Form>) {
    let places = [
        (r#"{app=~`"#, "`}"),
        (r#"{app="a"} |~ `"#, "`"),
        (r#"{app="a"} !~ `"#, "` | n=~`x`"),
        (r#"{app="a"} | logfmt | n=~`"#, "`"),
        (r#"{app="a"} | regexp `(?P<x>"#, ")`"),
        (r#"{app="a"} | line_format `{{regexReplaceAll ""#, "\" .n \"\"}}`"),
        (r#"label_replace(count_over_time({app="a"}[1m]), "x", "$1", "app", `"#, "`)"),
    ];
    let expressions = [
        ("groups", ["(", "n", ")"]),
        ("named groups", ["(?:n|", "n", ")"]),
        ("alternatives", ["n|", "n", ""]),
        ("repetitions", ["", "n", "*"]),
        ("repeated groups", ["(", "n", ")+"]),
        ("classes", ["[n", "n", "]"]),
        ("flags", ["(?i)", "n", ""]),
        ("words", ["\\b", "n", ""]),
    ];
    for (head, tail) in places {
        for (name, [piece, middle, closing]) in expressions {
            forms.push(Form::new(format!("{name} in {head}"), [head, piece, middle, closing, tail]));
        }
    }
    for (name, head, piece, tail) in [
        ("captures of a pattern", r#"{app="a"} | pattern "<a>"#, " <_>", "\""),
        ("captures of a form", r#"{app="a"} |> "<_>"#, " <_>", "\""),
        ("path into objects", r#"{app="a"} | json x="a"#, ".a", "\""),
        ("path into arrays", r#"{app="a"} | json x="a"#, "[0]", "\""),
        ("blanks", r#"{app="a"} "#, " ", ""),
        ("comments", r#"{app="a"} "#, "/* x */", ""),
        ("braces", "", "{", ""),
        ("brackets", r#"rate({app="a"}"#, "[", ""),
        ("quotes", r#"{app="a"} |= "#, "\"\"", ""),
        ("commas", r#"{app="a""#, ",", "}"),
        ("bars", r#"{app="a"}"#, " |", ""),
        ("digits", r#"vector("#, "1", ")"),
        ("numbers without a blank", "1", ".1", ""),
        ("signs without a number", "1 ", "-", ""),
        ("lines", "{app=\"a\"}", "\n", ""),
        ("units without a number", "1", "m1", ""),
        ("digits of a window", r#"rate({app="a"}["#, "1", "m])"),
        ("units of a window", r#"rate({app="a"}["#, "1m", "])"),
    ] {
        forms.push(Form::new(name, [head, piece, "", "", tail]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_repeated_as_often_as_fits() {
        for form in forms() {
            let count = form.fitting(1_000);
            assert!(form.query(count).len() <= 1_000, "{}", form.name);
            assert!(form.query(count + 1).len() > 1_000, "{}", form.name);
        }
    }
}

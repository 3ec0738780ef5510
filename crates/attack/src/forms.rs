//! Hostile texts of queries: chains and nestings of any length, one form per operator and construct.

/// A construct that can be repeated: the text before, the repeated piece, the text after it.
pub struct Form {
    /// What it is, for messages.
    pub name: String,
    opening: String,
    before: String,
    core: String,
    after: String,
    closing: String,
}

impl Form {
    fn chain(name: impl Into<String>, opening: &str, piece: impl Into<String>) -> Self {
        Self::nest(name, (opening, piece, ""), ("", ""))
    }

    fn nest(
        name: impl Into<String>,
        (opening, before, core): (&str, impl Into<String>, &str),
        (after, closing): (&str, &str),
    ) -> Self {
        Self {
            name: name.into(),
            opening: opening.to_owned(),
            before: before.into(),
            core: core.to_owned(),
            after: after.to_owned(),
            closing: closing.to_owned(),
        }
    }

    /// The text with so many repetitions.
    pub fn text(&self, count: usize) -> String {
        let (before, after) = (self.before.repeat(count), self.after.repeat(count));
        [&self.opening, &before, &self.core, &after, &self.closing].map(String::as_str).concat()
    }

    /// The most repetitions of a text of at most so many bytes.
    pub fn fitting(&self, bytes: usize) -> usize {
        let fixed = self.opening.len() + self.core.len() + self.closing.len();
        bytes.saturating_sub(fixed) / (self.before.len() + self.after.len()).max(1)
    }
}

const RATE: &str = r#"rate({job="a"}[5m])"#;
const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "==",
    "!=",
    ">",
    ">=",
    "<",
    "<=",
    "and",
    "or",
    "unless",
    "== bool",
    "+ on(a)",
    "* ignoring(a) group_left",
];
const LINE_FILTERS: &[&str] = &["|= `a`", "!= `a`", "|~ `a`", "!~ `a`", "|> `<_>a`", "!> `<_>a`"];
const STAGES: &[&str] = &[
    "| json",
    "| logfmt",
    "| unpack",
    "| decolorize",
    "| drop a",
    "| keep a",
    "| a=`b`",
    "| a>1",
    "| line_format `{{.a}}`",
    "| label_format a=b",
    "| regexp `(?P<a>.)`",
    "| pattern `<a> b`",
    "| json a=`b`",
    "| logfmt a=`b`",
];

/// Every form of a query.
pub fn queries() -> Vec<Form> {
    let mut forms = Vec::new();
    for operator in OPERATORS {
        let operand = if operator.starts_with(|c: char| c.is_ascii_alphabetic()) || operator.contains('(') {
            RATE
        } else {
            "1"
        };
        forms.push(Form::chain(format!("chain of {operator}"), RATE, format!(" {operator} {operand}")));
        let open = format!("{operand} {operator} (");
        forms.push(Form::nest(format!("nest of {operator}"), ("", open, RATE), (")", "")));
    }
    for stage in LINE_FILTERS.iter().chain(STAGES) {
        forms.push(Form::chain(format!("chain of {stage}"), r#"{job="a"}"#, format!(" {stage}")));
    }
    for (name, joint) in [("or", " or "), ("and", " and "), ("comma", ", ")] {
        let opening = r#"{job="a"} | a="b""#;
        forms.push(Form::chain(format!("label filters with {name}"), opening, format!(r#"{joint}a="b""#)));
        let open = format!(r#"a="b"{joint}("#);
        let nest = (r#"{job="a"} | "#, open, r#"a="b""#);
        forms.push(Form::nest(format!("nested label filters with {name}"), nest, (")", "")));
    }
    forms.push(Form::chain("needles with or", r#"{job="a"} |= `a`"#, " or `b`"));
    forms.push(Form::chain("matchers", r#"{job="a""#, r#", b!="c""#));
    for (name, before, after) in [
        ("parentheses", "(", ")"),
        ("sums", "sum(", ")"),
        ("sums by", "sum by (a) (", ")"),
        ("topk", "topk(1, ", ")"),
        ("sort", "sort(", ")"),
        ("label_replace", "label_replace(", r#", "a", "$1", "b", "(.*)")"#),
        ("label_join", "label_join(", r#", "a", "-", "b")"#),
        ("vector", "vector(", ")"),
        ("absent", "absent_over_time(", ")"),
    ] {
        forms.push(Form::nest(format!("nested {name}"), ("", before, RATE), (after, "")));
    }
    for sign in ["-", "+", "- -", "!"] {
        forms.push(Form::nest(format!("signs {sign}"), ("", sign, "1"), ("", "")));
    }
    forms.push(Form::nest("open parentheses", ("", "(", ""), ("", "")));
    forms.push(Form::nest("open selectors", ("", "{", ""), ("", "")));
    for regex in regexes() {
        forms.push(wrapped(r#"{job=~""#, &regex, r#""}"#));
    }
    for template in templates() {
        forms.push(wrapped(r#"{job="a"} | line_format `"#, &template, "`"));
    }
    forms
}

/// The form inside of a longer text.
fn wrapped(before: &str, form: &Form, after: &str) -> Form {
    Form {
        name: form.name.clone(),
        opening: format!("{before}{}", form.opening),
        before: form.before.clone(),
        core: form.core.clone(),
        after: form.after.clone(),
        closing: format!("{}{after}", form.closing),
    }
}

/// Forms of regular expressions without quotes or backslashes.
pub fn regexes() -> Vec<Form> {
    vec![
        Form::nest("groups of a regex", ("", "(", "a"), (")", "")),
        Form::nest("open groups of a regex", ("", "(", ""), ("", "")),
        Form::nest("stars of a regex", ("a", "*", ""), ("", "")),
        Form::nest("counted groups of a regex", ("", "(", "a"), ("){2}", "")),
        Form::nest("optional groups of a regex", ("", "(?:", "a"), (")?", "")),
        Form::chain("alternatives of a regex", "a", "|b"),
        Form::chain("classes of a regex", "", "[^a]"),
        Form::nest("nested classes of a regex", ("", "[a", ""), ("]", "")),
    ]
}

/// Forms of templates.
pub fn templates() -> Vec<Form> {
    vec![
        Form::nest("else if", ("{{if .a}}", "{{else if .a}}", ""), ("", "{{end}}")),
        Form::nest("nested if", ("", "{{if .a}}", "x"), ("{{end}}", "")),
        Form::nest("nested with", ("", "{{with .a}}", "x"), ("{{end}}", "")),
        Form::nest("nested range", ("", "{{range .a}}", "x"), ("{{end}}", "")),
        Form::nest("nested parentheses of a template", ("{{", "(", ".a"), (")", "}}")),
        Form::chain("pipelines of a template", "{{.a", " | ToUpper").closed("}}"),
        Form::nest("nested blocks", ("", "{{block \"a\" .}}", "x"), ("{{end}}", "")),
        Form::chain("definitions", "", "{{define \"a\"}}{{template \"a\" .}}{{end}}")
            .closed("{{template \"a\" .}}"),
        Form::chain("actions", "", "{{.a}}"),
        Form::chain("fields of a template", "{{", ".a").closed("}}"),
    ]
}

impl Form {
    fn closed(mut self, closing: &str) -> Self {
        self.closing = closing.to_owned();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_as_many_repetitions_as_fit() {
        for form in queries() {
            let count = form.fitting(1_000);
            assert!(form.text(count).len() <= 1_000, "{}", form.name);
            assert!(form.text(count + 1).len() > 1_000, "{}", form.name);
        }
        let first = &queries()[0];
        assert_eq!(first.text(2), r#"rate({job="a"}[5m]) + 1 + 1"#);
    }
}

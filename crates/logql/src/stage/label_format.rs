//! `label_format a=b, c="template"`: renames a label, or sets a label to the output of a template.

use std::fmt;
use std::sync::Arc;

use sandur_model::go_text::quote;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{ERROR, Row, Stage};
use crate::stage::line_format::TEMPLATE_ERROR;
use crate::stage::node::{Effect, StageNode, StageSpec, stage_error};
use crate::template::{Runner, Template};

pub const SPEC: StageSpec = StageSpec {
    name: "label_format",
    syntax: "| label_format new=old, label=\"{{.other}}\"",
    doc: "Renames labels, or sets them to the output of a template over the labels.",
    examples: &["| label_format m=n", "| label_format m=\"{{.n}}\""],
    parse,
};

/// The source of a label, as in the query.
#[derive(Clone, Debug)]
enum Source {
    Label(String),
    Template(String),
}

#[derive(Debug)]
enum Format {
    Rename { to: String, from: String },
    Set { label: String, template: Template },
}

impl Format {
    fn label(&self) -> &str {
        match self {
            Self::Rename { to, .. } => to,
            Self::Set { label, .. } => label,
        }
    }
}

#[derive(Debug)]
struct LabelFormat {
    formats: Vec<Format>,
    sources: Vec<(String, Source)>,
}

/// The text of the stage.
struct Written<'a>(&'a [(String, Source)]);

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let mut sources = Vec::new();
    loop {
        let label = parser.expect(Kind::Identifier, &["IDENTIFIER"])?.text;
        parser.expect_word("=")?;
        let source = match parser.kind() {
            Kind::Identifier => Source::Label(parser.take().text),
            Kind::String => Source::Template(parser.take().text),
            _ => return Err(parser.unexpected(&["IDENTIFIER", "STRING"])),
        };
        sources.push((label, source));
        if !parser.take_word(",") {
            break;
        }
    }
    let written = Written(&sources).to_string();
    let compile = |(label, source)| match source {
        Source::Label(from) => Ok(Format::Rename { to: label, from }),
        Source::Template(text) => match Template::parse(&text, "label") {
            Ok(template) => Ok(Format::Set { label, template }),
            Err(reason) => {
                Err(stage_error(&written, format!("invalid template for label '{label}': {reason}")))
            }
        },
    };
    let formats = sources.clone().into_iter().map(compile).collect::<Result<_, _>>()?;
    let node = LabelFormat { formats, sources };
    let mut seen: Vec<&str> = Vec::new();
    for label in node.formats.iter().map(Format::label) {
        if label == ERROR {
            return Err(stage_error(&node, format!("{label} cannot be formatted")));
        }
        if seen.contains(&label) {
            let reason = format!("multiple label name '{label}' not allowed in a single format operation");
            return Err(stage_error(&node, reason));
        }
        seen.push(label);
    }
    Ok(Arc::new(node))
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| label_format ")?;
        for (n, (label, source)) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "," })?;
            match source {
                Source::Label(from) => write!(f, "{label}={from}")?,
                Source::Template(text) => write!(f, "{label}={}", quote(text))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for LabelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Written(&self.sources).fmt(f)
    }
}

impl StageNode for LabelFormat {
    fn effect(&self) -> Effect {
        // A template may read the line.
        let removes_labels = self.formats.iter().any(|format| matches!(format, Format::Rename { .. }));
        let asks =
            |format: &Format| matches!(format, Format::Set { template, .. } if template.asks_for_time());
        let asks_for_time = self.formats.iter().any(asks);
        Effect { reads_line: true, changes_labels: true, removes_labels, asks_for_time, ..Effect::default() }
    }

    fn reads(&self) -> Vec<String> {
        let mut names = Vec::new();
        for format in &self.formats {
            match format {
                Format::Rename { from, .. } => names.push(from.clone()),
                Format::Set { template, .. } => names.extend(template.fields().unwrap_or_default()),
            }
        }
        names
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let formats = self.formats.iter().map(|format| match format {
            Format::Rename { to, from } => RunningFormat::Rename { to: names.id(to), from: names.id(from) },
            Format::Set { label, template } => {
                RunningFormat::Set { label: names.id(label), runner: Box::new(Runner::new(template, names)) }
            }
        });
        Box::new(Running { formats: formats.collect(), outputs: Vec::new(), out: Vec::new() })
    }
}

enum RunningFormat {
    Rename { to: NameId, from: NameId },
    Set { label: NameId, runner: Box<Runner> },
}

struct Running {
    formats: Vec<RunningFormat>,
    outputs: Vec<Result<Vec<u8>, String>>,
    out: Vec<u8>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        let mut started = false;
        let mut next = 0;
        for n in 0..self.formats.len() {
            match &self.formats[n] {
                RunningFormat::Rename { to, from } => {
                    if let Some(value) = row.get(*from) {
                        self.out.clear();
                        self.out.extend_from_slice(value.as_bytes());
                        row.set_with(*to, self.out.len(), |text| text.extend_from_slice(&self.out));
                        row.delete(*from);
                    }
                }
                RunningFormat::Set { label, .. } => {
                    let label = *label;
                    if !started {
                        self.run_templates(row);
                        started = true;
                    }
                    match &self.outputs[next] {
                        Ok(text) => row.set_with(label, text.len(), |out| out.extend_from_slice(text)),
                        Err(reason) => row.fail(TEMPLATE_ERROR, reason),
                    }
                    next += 1;
                }
            }
        }
        true
    }
}

impl Running {
    /// Runs all templates. Each of them sees the labels as they were before the first one ran.
    fn run_templates(&mut self, row: &mut Row<'_>) {
        self.outputs.clear();
        for format in &self.formats {
            if let RunningFormat::Set { runner, .. } = format {
                let mut text = Vec::new();
                let outcome = row.with_line(|row, line| runner.run(row, line, &mut text));
                self.outputs.push(outcome.map(|()| text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    fn all(stages: &str) -> String {
        let out = run(&format!(r#"{{app="s"}} | logfmt | {stages}"#), "a=1 b=2").unwrap();
        let pairs = out.stream.iter().chain(&out.parsed).map(|(n, v)| format!("{n}={v}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn labels_are_renamed_and_set() {
        for (stages, expected) in [
            ("label_format c=a", "app=s b=2 c=1"),
            ("label_format a=b", "app=s a=2"),
            (r#"label_format c="{{.a}}-{{.app}}""#, "app=s a=1 b=2 c=1-s"),
            (r#"label_format app="{{.a}}""#, "a=1 app=1 b=2"),
            ("label_format service=app", "a=1 b=2 service=s"),
            ("label_format c=none", "app=s a=1 b=2"),
            (r#"label_format c="{{.none}}""#, "app=s a=1 b=2 c="),
            (r#"label_format a="9",c="{{.a}}""#, "app=s a=9 b=2 c=1"),
            (r#"label_format c="{{__line__}}""#, "app=s a=1 b=2 c=a=1 b=2"),
        ] {
            assert_eq!(all(stages), expected, "{stages}");
        }
    }

    #[test]
    fn invalid_formats_are_refused() {
        for (stage, reason) in [
            ("label_format __error__=a", "__error__ cannot be formatted"),
            ("label_format a=b,a=c", "multiple label name 'a' not allowed in a single format operation"),
            (r#"label_format a="{{""#, "invalid template for label 'a'"),
        ] {
            let error = crate::parse(&format!(r#"{{app="s"}} | {stage}"#)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

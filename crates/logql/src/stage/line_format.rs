//! `line_format "template"`: replaces the line with the output of the template.

use std::fmt;
use std::sync::Arc;

use sandur_model::go_text::quote;

use crate::error::ParseError;
use crate::names::Names;
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::node::{Effect, StageNode, StageSpec, stage_error};
use crate::template::{Runner, Template};

/// The `__error__` of a row for which a template fails.
pub const TEMPLATE_ERROR: &str = "TemplateFormatErr";

pub const SPEC: StageSpec = StageSpec {
    name: "line_format",
    syntax: "| line_format \"{{.label}} text\"",
    doc: "Replaces the line with the output of a template over the labels.",
    examples: &["| line_format \"{{.n}} text\""],
    parse,
};

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let text = parser.string()?;
    let template = Template::parse(&text, "line").map_err(|reason| {
        let stage = format!("| line_format {}", quote(&text));
        stage_error(&stage, format!("invalid line template: {reason}"))
    })?;
    Ok(Arc::new(LineFormat { text, template }))
}

#[derive(Debug)]
struct LineFormat {
    text: String,
    template: Template,
}

impl fmt::Display for LineFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| line_format {}", quote(&self.text))
    }
}

impl StageNode for LineFormat {
    fn effect(&self) -> Effect {
        let asks_for_time = self.template.asks_for_time();
        Effect { reads_line: true, changes_line: true, asks_for_time, ..Effect::default() }
    }

    fn reads(&self) -> Vec<String> {
        self.template.fields().unwrap_or_default()
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        Box::new(Running { runner: Runner::new(&self.template, names), out: Vec::new() })
    }
}

struct Running {
    runner: Runner,
    out: Vec<u8>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        self.out.clear();
        let outcome = row.with_line(|row, line| self.runner.run(row, line, &mut self.out));
        match outcome {
            Ok(()) => row.replace_line(self.out.len(), |_, buffer| buffer.extend_from_slice(&self.out)),
            Err(reason) => row.fail(TEMPLATE_ERROR, reason),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    #[test]
    fn only_templates_that_call_now_read_the_time() {
        let asks = |stages: &str| {
            let log = crate::parser::parse_log(&format!(r#"{{app="s"}} | {stages}"#)).unwrap();
            log.stages.iter().any(|stage| stage.effect().asks_for_time)
        };
        assert!(asks("line_format `{{ if .a }}x{{ else }}{{ now | unixEpoch }}{{ end }}`"));
        assert!(asks(r#"logfmt | label_format b=a, t=`{{ date "2006" (now) }}`"#));
        assert!(asks("line_format `{{ range $i := .l }}{{ now }}{{ end }}`"));
        assert!(!asks("line_format `now {{.now}}` | label_format now=a"));
    }

    #[test]
    fn the_output_replaces_the_line() {
        let line =
            |stages: &str| run(&format!(r#"{{app="s"}} | logfmt | {stages}"#), "a=1 b=2").unwrap().line;
        assert_eq!(line(r#"line_format "{{.a}}{{.app}}{{.none}}""#), "1s");
        assert_eq!(line(r#"line_format "{{.b}}""#), "2", "one field is copied");
        assert_eq!(line(r#"line_format "x{{__line__}}" | line_format "{{__line__}}y""#), "xa=1 b=2y");
        assert_eq!(line(r#"line_format "{{.none}}""#), "");
    }
}

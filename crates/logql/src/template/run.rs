//! Evaluates a template's tree for a row.
//!
//! **Bounds:** the output for a row has at most [`OUTPUT_BYTES_MAX`], unless it is a single text of the
//! row. A template runs at most [`STEPS_MAX`] steps for a row. The results of functions have the bounds of
//! [`Results`]. Beyond a bound the template fails, which marks the row with `TemplateFormatErr`.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_base::nesting::{Depth, HEIGHT_MAX};
use sandur_memory::job::spend;
use sandur_model::go_text::excerpt;

use super::Template;
use super::functions::{Function, Host, RegexCache, Site, time_method};
use super::results::{Results, VALUE_BYTES};
use super::tree::{Branch, Command, Loop, Node, Operand, Pipeline, Place};
use super::value::Value;
use crate::names::NameId;
use crate::row::{ERROR, ERROR_DETAILS, Row};

/// The longest output for a row, in bytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The most steps for a row.
const STEPS_MAX: usize = 100_000;
/// The work of a step.
const STEP_UNITS: usize = 100;

/// A template that is ready to run in one worker.
pub struct Runner {
    template: Template,
    /// The field, if the template is one plain field, whose value is just copied.
    simple: Option<NameId>,
    /// The names of fields, with their numbers.
    fields: Vec<(String, NameId)>,
    /// The compiled regexes of the template's functions.
    regexes: RegexCache,
    /// The results of its functions for a row.
    results: Results,
}

enum Flow {
    Next,
    Break,
    Continue,
}

struct State<'r, 'p> {
    /// The row; `None` if `.` is a given value.
    row: Option<&'r Row<'p>>,
    host: Option<&'r dyn Host>,
    template: &'r Template,
    fields: &'r [(String, NameId)],
    line: &'r [u8],
    now_ns: i64,
    out: &'r mut Vec<u8>,
    start: usize,
    steps: usize,
    variables: Vec<(String, Value)>,
    /// The value of `.` inside `with` and `range`; `None` is the row's labels.
    dot: Option<Value>,
    /// The value of `$`, which differs inside blocks; `None` is the row's labels.
    root: Option<Value>,
    /// The depth of nested lists of nodes and parentheses, including those of blocks that run blocks.
    depth: Depth,
    regexes: &'r RegexCache,
    results: &'r Results,
}

impl Runner {
    /// Prepares a template to run.
    pub fn new(template: &Template, names: &mut crate::names::Names) -> Self {
        let mut list = Vec::new();
        template.add_fields(&mut list);
        list.sort();
        list.dedup();
        let fields: Vec<(String, NameId)> =
            list.into_iter().map(|name| (name.clone(), names.id(&name))).collect();
        let simple = match template.nodes.as_slice() {
            [Node::Action(pipeline)] if pipeline.variables.is_empty() => match pipeline.commands.as_slice() {
                [Command { operands, .. }] => match operands.as_slice() {
                    [Operand::Field(path, _)] if path.len() == 1 => Some(names.id(&path[0])),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        Self {
            template: template.clone(),
            simple,
            fields,
            regexes: RegexCache::default(),
            results: Results::default(),
        }
    }

    /// Appends the template's output for the row with the line `line`.
    pub fn run(&self, row: &Row<'_>, line: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if let Some(name) = self.simple {
            out.extend_from_slice(row.value(name).as_bytes());
            return Ok(());
        }
        self.results.next_row();
        let start = out.len();
        let fields = &self.fields;
        let template = &self.template;
        let mut state = State {
            row: Some(row),
            host: None,
            template,
            fields,
            line,
            now_ns: row.scratch.now_ns.unwrap_or(row.timestamp),
            out,
            start,
            steps: 0,
            variables: Vec::new(),
            dot: None,
            root: None,
            depth: Depth::default(),
            regexes: &self.regexes,
            results: &self.results,
        };
        match state.nodes(&template.nodes) {
            Ok(_) => Ok(()),
            Err(reason) => {
                out.truncate(start);
                Err(reason)
            }
        }
    }
}

impl Template {
    /// Runs the template with a value as its `.`, outside of a query of rows. Functions of the program come
    /// from `host`.
    pub fn render(&self, dot: Value, now_ns: i64, host: &dyn Host) -> Result<String, String> {
        let (regexes, results, mut out) = (RegexCache::default(), Results::default(), Vec::new());
        let mut state = State {
            row: None,
            host: Some(host),
            template: self,
            fields: &[],
            line: b"",
            now_ns,
            out: &mut out,
            start: 0,
            steps: 0,
            variables: Vec::new(),
            dot: Some(dot.clone()),
            root: Some(dot),
            depth: Depth::default(),
            regexes: &regexes,
            results: &results,
        };
        state.nodes(&self.nodes)?;
        String::from_utf8(out).map_err(|error| error.to_string())
    }
}

impl<'r> State<'r, '_> {
    /// The value of a label of the row; empty without a row.
    fn label(&self, name: &str) -> &'r str {
        self.row.map_or("", |row| row.value(self.field_id(name)))
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth.enter().map_err(|_| format!("exceeded maximum template depth ({HEIGHT_MAX})"))
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<Flow, String> {
        self.enter()?;
        let known = self.variables.len();
        let mut outcome = Flow::Next;
        for node in nodes {
            self.step()?;
            let flow = match node {
                Node::Text(text) => {
                    self.emit(text)?;
                    Flow::Next
                }
                Node::Action(pipeline) => {
                    self.action(pipeline)?;
                    Flow::Next
                }
                Node::Branch(branch) => self.branch(branch)?,
                Node::Range(range) => {
                    self.range(range)?;
                    Flow::Next
                }
                Node::Block(name, pipeline, place) => {
                    let outcome = self.block(name, pipeline.as_ref());
                    outcome.map_err(|reason| self.placed(*place, reason))?;
                    Flow::Next
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if !matches!(flow, Flow::Next) {
                outcome = flow;
                break;
            }
        }
        self.variables.truncate(known);
        self.depth.leave();
        Ok(outcome)
    }

    fn action(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        // A field of the row is written directly to the output.
        if let ([], [Command { operands, .. }]) = (&*pipeline.variables, &*pipeline.commands)
            && let ([Operand::Field(path, _)], None) = (&**operands, &self.dot)
            && let [name] = &**path
        {
            let value = self.label(name);
            return self.emit(value);
        }
        let value = self.pipeline(pipeline)?;
        match &value {
            _ if !pipeline.variables.is_empty() => Ok(()),
            Value::Nil => self.emit("<no value>"),
            Value::Text(text) => self.emit(text),
            other => {
                let text = self.results.make(|out| other.write(out))?;
                self.emit(&text)
            }
        }
    }

    /// Appends text to the output.
    fn emit(&mut self, text: &str) -> Result<(), String> {
        let before = self.out.len() - self.start;
        if before > 0 && before + text.len() > OUTPUT_BYTES_MAX {
            return Err(exceeded());
        }
        if self.out.capacity() - self.out.len() < text.len() {
            let capacity = (self.out.len() + text.len()).max(2 * self.out.capacity());
            self.results.take(capacity)?;
            self.out.reserve_exact(capacity - self.out.len());
        }
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(exceeded());
        }
        spend(STEP_UNITS).map_err(|stopped| stopped.to_string())
    }

    fn branch(&mut self, branch: &Branch) -> Result<Flow, String> {
        let known = self.variables.len();
        for arm in &branch.arms {
            let value = self.pipeline(&arm.pipeline)?;
            if !value.is_true() {
                continue;
            }
            let outside = arm.moves_dot.then(|| self.dot.replace(value));
            let flow = self.nodes(&arm.then);
            if let Some(dot) = outside {
                self.dot = dot;
            }
            self.variables.truncate(known);
            return flow;
        }
        let flow = self.nodes(&branch.otherwise);
        self.variables.truncate(known);
        flow
    }

    fn range(&mut self, range: &Loop) -> Result<(), String> {
        let known = self.variables.len();
        let value = self.evaluate_pipeline(&range.pipeline)?;
        let mut items: Box<dyn Iterator<Item = (Value, Value)>> = match &value {
            Value::List(list) => Box::new(list.iter().zip(0..).map(|(v, n)| (Value::Int(n), v.clone()))),
            Value::Map(map) => Box::new(map.iter().map(|(k, v)| (Value::Text(k.clone()), v.clone()))),
            Value::Texts(map) => {
                Box::new(map.iter().map(|(k, v)| (Value::Text(k.clone()), Value::Text(v.clone()))))
            }
            Value::Int(count) => Box::new((0..*count).map(|n| (Value::Int(n), Value::Int(n)))),
            Value::Nil => Box::new(std::iter::empty()),
            other => {
                let text = self.results.make(|out| other.write(out))?;
                let reason = format!("range can't iterate over {}", excerpt(&text));
                let place = range.pipeline.commands.last().map(|command| command.place);
                return Err(place.map_or(reason.clone(), |place| self.placed(place, reason)));
            }
        };
        let mut next = items.next();
        if next.is_none() {
            self.nodes(&range.otherwise)?;
        }
        while let Some((key, value)) = next {
            self.step()?;
            match range.pipeline.variables.as_slice() {
                [] => {}
                [one] => self.set(one, value.clone(), range.pipeline.declares)?,
                [first, second, ..] => {
                    self.set(first, key, range.pipeline.declares)?;
                    self.set(second, value.clone(), range.pipeline.declares)?;
                }
            }
            let before = self.dot.replace(value);
            let flow = self.nodes(&range.body);
            self.dot = before;
            self.variables.truncate(known);
            if matches!(flow?, Flow::Break) {
                break;
            }
            next = items.next();
        }
        Ok(())
    }

    fn block(&mut self, name: &str, pipeline: Option<&Pipeline>) -> Result<(), String> {
        let template = self.template;
        let Some(nodes) = template.blocks.get(name) else {
            return Err(format!("template {} not defined", sandur_model::go_text::quote(name)));
        };
        // The labels are passed as `.` or `$` without creating a map of them.
        let dot = match pipeline {
            None => Some(Value::Nil),
            Some(pipeline) if is_labels(pipeline, self.dot.is_none(), self.root.is_none()) => None,
            Some(pipeline) => Some(self.pipeline(pipeline)?),
        };
        let outside = (self.dot.take(), self.root.take(), std::mem::take(&mut self.variables));
        (self.dot, self.root) = (dot.clone(), dot);
        let outcome = self.nodes(nodes);
        (self.dot, self.root, self.variables) = outside;
        outcome.map(|_| ())
    }

    fn set(&mut self, name: &str, value: Value, declare: bool) -> Result<(), String> {
        if !declare && let Some(slot) = self.variables.iter_mut().rev().find(|(n, _)| n == name) {
            slot.1 = value;
            return Ok(());
        }
        self.results.take(2 * VALUE_BYTES + name.len())?;
        self.variables.push((name.to_owned(), value));
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<Value, String> {
        let value = self.evaluate_pipeline(pipeline)?;
        for name in &pipeline.variables {
            self.set(name, value.clone(), pipeline.declares)?;
        }
        Ok(value)
    }

    fn evaluate_pipeline(&mut self, pipeline: &Pipeline) -> Result<Value, String> {
        let mut passed: Option<Value> = None;
        for command in &pipeline.commands {
            self.step()?;
            passed = Some(self.command(command, passed)?);
        }
        Ok(passed.unwrap_or(Value::Nil))
    }

    fn command(&mut self, command: &Command, passed: Option<Value>) -> Result<Value, String> {
        let result = self.evaluate(command, passed);
        result.map_err(|reason| self.placed(command.place, reason))
    }

    /// Adds the template's position to an error, in Go's form, unless the error has one.
    fn placed(&self, place: Place, reason: String) -> String {
        if reason.starts_with("template: ") {
            return reason;
        }
        let Template { name, text, .. } = self.template;
        let before = &text[..place.at];
        let line = before.matches('\n').count() + 1;
        let column = before.rfind('\n').map_or(place.at, |n| place.at - n - 1);
        let source = text[place.start..place.end].split_whitespace().collect::<Vec<_>>().join(" ");
        format!("template: {name}:{line}:{column}: executing {name:?} at <{source}>: {reason}")
    }

    fn evaluate(&mut self, command: &Command, passed: Option<Value>) -> Result<Value, String> {
        let Operand::Function(function) = &command.operands[0] else {
            if command.operands.len() > 1 {
                return self.method_call(&command.operands[0], &command.operands[1..]);
            }
            if matches!(command.operands[0], Operand::Literal(Value::Nil)) {
                return Err("nil is not a command".to_owned());
            }
            return self.operand(&command.operands[0]);
        };
        self.call(function, &command.operands[1..], passed)
    }

    /// Calls a method: `x.Method argument..`.
    fn method_call(&mut self, target: &Operand, operands: &[Operand]) -> Result<Value, String> {
        let mut target = target.clone();
        let method = match &mut target {
            Operand::Field(path, _) if path.len() > 1 => path.pop(),
            Operand::Variable(_, path, _) | Operand::Group(_, path) => path.pop(),
            _ => None,
        };
        let Some(method) = method else { return Err("can't give argument to non-function".to_owned()) };
        let value = self.operand(&target)?;
        let arguments = operands.iter().map(|o| self.operand(o)).collect::<Result<Vec<_>, _>>()?;
        match value {
            Value::Time(instant) => time_method(self.results, instant, &method, &arguments),
            _ => Err(format!("{method} has arguments but cannot be invoked as function")),
        }
    }

    fn call(
        &mut self,
        function: &Function,
        operands: &[Operand],
        passed: Option<Value>,
    ) -> Result<Value, String> {
        // `and` and `or` stop at the first operand that decides.
        if matches!(function.name, "and" | "or") {
            let mut last = Value::Nil;
            for operand in operands {
                last = self.operand(operand)?;
                if last.is_true() == (function.name == "or") {
                    return Ok(last);
                }
            }
            return Ok(passed.unwrap_or(last));
        }
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            arguments.push(self.operand(operand)?);
        }
        arguments.extend(passed);
        let (least, most) = function.arguments;
        if arguments.len() < least || arguments.len() > most {
            let want = if least == most { format!("{least}") } else { format!("at least {least}") };
            return Err(format!(
                "wrong number of args for {}: want {want} got {}",
                function.name,
                arguments.len()
            ));
        }
        // Functions read each argument at most a few times.
        let read = |argument: &Value| if let Value::Text(text) = argument { text.len() } else { 0 };
        spend(arguments.iter().map(read).sum()).map_err(|stopped| stopped.to_string())?;
        let Self { line, now_ns, regexes, results, host, .. } = *self;
        let timestamp = self.row.map_or(now_ns, |row| row.timestamp);
        let site = Site { line, timestamp, now_ns, regexes, results, host };
        (function.call)(&site, arguments)
            .map_err(|reason| format!("error calling {}: {reason}", function.name))
    }

    fn operand(&mut self, operand: &Operand) -> Result<Value, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Dot => self.dot.clone().map_or_else(|| self.all_labels(), Ok),
            Operand::Field(path, place) => {
                let found = match self.dot.clone() {
                    None => self.label_path(path),
                    Some(dot) => self.fields_of(dot, path),
                };
                found.map_err(|reason| self.placed(*place, reason))
            }
            Operand::Variable(name, path, place) if name.is_empty() => {
                let found = match (self.root.clone(), path.is_empty()) {
                    (Some(root), _) => self.fields_of(root, path),
                    (None, true) => self.all_labels(),
                    (None, false) => self.label_path(path),
                };
                found.map_err(|reason| self.placed(*place, reason))
            }
            Operand::Variable(name, path, place) => {
                let found = self.variables.iter().rev().find(|(n, _)| n == name);
                let value =
                    found.map(|(_, v)| v.clone()).ok_or_else(|| format!("undefined variable: ${name}"))?;
                self.fields_of(value, path).map_err(|reason| self.placed(*place, reason))
            }
            Operand::Function(function) => self.call(function, &[], None),
            Operand::Group(pipeline, path) => {
                self.enter()?;
                let value = self.pipeline(pipeline)?;
                self.depth.leave();
                self.fields_of(value, path)
            }
        }
    }

    fn field_id(&self, name: &str) -> NameId {
        let found = self.fields.binary_search_by(|(n, _)| n.as_str().cmp(name));
        found.map_or(NameId::MAX, |n| self.fields[n].1)
    }

    fn label_path(&self, path: &[String]) -> Result<Value, String> {
        let value = Value::Text(self.results.copy(self.label(&path[0]))?);
        self.fields_of(value, &path[1..])
    }

    fn all_labels(&self) -> Result<Value, String> {
        let mut map = BTreeMap::new();
        let mut outcome = Ok(());
        let mut add = |name: &str, value: &str| {
            if outcome.is_ok() {
                let pair = self
                    .results
                    .take(2 * VALUE_BYTES)
                    .and_then(|()| Ok((self.results.copy(name)?, Value::Text(self.results.copy(value)?))));
                outcome = pair.map(|(name, value)| _ = map.insert(name, value));
            }
        };
        let Some(row) = self.row else { return Ok(Value::Nil) };
        row.for_each_label(|_, name, value| add(row.scratch.names.name(name), value));
        if let Some(error) = row.error() {
            add(ERROR, error);
            add(ERROR_DETAILS, row.error_details());
        }
        outcome.map(|()| Value::Map(Arc::new(map)))
    }

    fn fields_of(&self, mut value: Value, path: &[String]) -> Result<Value, String> {
        for name in path {
            value = match value {
                Value::Time(instant) => time_method(self.results, instant, name, &[])?,
                Value::Map(map) => map.get(name.as_str()).cloned().unwrap_or(Value::Nil),
                Value::Texts(map) => Value::Text(map.get(name.as_str()).cloned().unwrap_or_default()),
                Value::Record(record) => match record.get(name) {
                    Some(value) => value.clone(),
                    None => {
                        let of = record.type_name;
                        return Err(format!("can't evaluate field {name} in type {of}"));
                    }
                },
                Value::Nil => Value::Nil,
                other => return Err(format!("can't evaluate field {name} in type {}", other.type_name())),
            };
        }
        Ok(value)
    }
}

fn exceeded() -> String {
    format!("template exceeds {STEPS_MAX} steps or {OUTPUT_BYTES_MAX} bytes of output")
}

/// Whether the argument of a block is the row's labels: `.` or `$` where these are the labels.
fn is_labels(pipeline: &Pipeline, dot_is_labels: bool, root_is_labels: bool) -> bool {
    let ([], [command]) = (&*pipeline.variables, &*pipeline.commands) else { return false };
    match &*command.operands {
        [Operand::Dot] => dot_is_labels,
        [Operand::Variable(name, path, _)] => name.is_empty() && path.is_empty() && root_is_labels,
        _ => false,
    }
}

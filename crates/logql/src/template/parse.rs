//! Parses a template to a tree of nodes and the blocks that `define` and `block` name.

use sandur_base::nesting::{Depth, TooNested};

use super::functions::Function;
use super::tree::{Arm, Blocks, Branch, Command, Loop, Node, Operand, Pipeline, Place};
use super::value::Value;

/// The message and line of a parse error.
pub struct Failure {
    pub line: usize,
    pub reason: String,
}

/// Finds a function by its name.
pub type Find = fn(&str) -> Option<&'static Function>;

/// Parses a template whose functions `find` knows.
pub fn parse(text: &str, find: Find) -> Result<(Vec<Node>, Blocks), Failure> {
    let variables = vec![String::new()];
    let blocks = Blocks::new();
    let mut parser =
        Parser { text, find, at: 0, depth: Depth::default(), trim: false, variables, loops: 0, blocks };
    let mut nodes = Vec::new();
    match parser.nodes(&mut nodes)? {
        End::Text => Ok((nodes, parser.blocks)),
        End::Block => Err(parser.fail("unexpected {{end}}")),
        End::Else(_) => Err(parser.fail("unexpected {{else}}")),
    }
}

/// The token that ended a list of nodes.
pub(super) enum End {
    Text,
    Block,
    Else(Option<&'static str>),
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    find: Find,
    pub(super) at: usize,
    pub(super) depth: Depth,
    /// Whether the last action ended with `-}}`.
    trim: bool,
    pub(super) variables: Vec<String>,
    pub(super) loops: usize,
    pub(super) blocks: Blocks,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Field(&'a str),
    Variable(&'a str),
    Literal(Value),
    Dot,
    Pipe,
    Open,
    Close,
    Comma,
    Declare,
    Assign,
    Space,
    End,
}

impl<'a> Parser<'a> {
    pub(super) fn fail(&self, reason: impl Into<String>) -> Failure {
        let line = self.text[..self.at.min(self.text.len())].matches('\n').count() + 1;
        Failure { line, reason: reason.into() }
    }

    /// Enters a level of the tree; fails if the tree would be too deep.
    fn enter(&mut self) -> Result<(), Failure> {
        self.depth.enter().map_err(|limit: TooNested| self.fail(format!("the template has {limit}")))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Parses nodes up to the token that ends them.
    pub(super) fn nodes(&mut self, nodes: &mut Vec<Node>) -> Result<End, Failure> {
        self.enter()?;
        loop {
            if !self.plain_text(nodes) {
                self.depth.leave();
                return Ok(End::Text);
            }
            if self.comment()? {
                continue;
            }
            match self.action()? {
                Step::Node(node) => nodes.push(node),
                Step::Nothing => {}
                Step::End(end) => {
                    self.depth.leave();
                    return Ok(end);
                }
            }
        }
    }

    /// Reads the text before the next action, and the action's opening braces; returns false if no action
    /// follows.
    fn plain_text(&mut self, nodes: &mut Vec<Node>) -> bool {
        let open = self.rest().find("{{");
        let mut text = &self.rest()[..open.unwrap_or(self.rest().len())];
        self.at += text.len();
        if std::mem::take(&mut self.trim) {
            text = text.trim_start_matches([' ', '\t', '\r', '\n']);
        }
        if open.is_some() {
            self.at += 2;
            let trims = self.rest().strip_prefix('-').is_some_and(|r| r.starts_with([' ', '\t', '\r', '\n']));
            if trims {
                self.at += 1;
                text = text.trim_end_matches([' ', '\t', '\r', '\n']);
            }
        }
        if !text.is_empty() {
            nodes.push(Node::Text(text.to_owned()));
        }
        open.is_some()
    }

    fn comment(&mut self) -> Result<bool, Failure> {
        // As in Go, a comment begins directly after the braces, or after the space that a trim marker
        // needs.
        let trims = self.text[..self.at].trim_end().ends_with('-');
        let inside = self.rest();
        let begins = inside.starts_with("/*");
        let begins_after_blank =
            trims && inside.starts_with([' ', '\t', '\n', '\r']) && inside[1..].starts_with("/*");
        if !begins && !begins_after_blank {
            return Ok(false);
        }
        let Some(end) = self.rest().find("*/") else { return Err(self.fail("unclosed comment")) };
        self.at += end + 2;
        self.close()?;
        Ok(true)
    }

    /// Parses the end of an action.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        if let Some(after) = trimmed.strip_prefix("-}}").filter(|_| trimmed.len() < rest.len()) {
            self.at = self.text.len() - after.len();
            self.trim = true;
            return Ok(());
        }
        match trimmed.strip_prefix("}}") {
            Some(after) => {
                self.at = self.text.len() - after.len();
                Ok(())
            }
            None => Err(self.fail("unclosed action")),
        }
    }

    /// Parses the content of an action. Actions with nested nodes recurse through this function, so it
    /// delegates at once and keeps no variables on the stack.
    fn action(&mut self) -> Result<Step, Failure> {
        let before = self.at;
        self.skip_space();
        let word = match self.token()? {
            Token::Word(word) => word,
            _ => "",
        };
        match word {
            "if" => self.branch("if"),
            "with" => self.branch("with"),
            "range" => self.range(),
            "define" => self.define(),
            "block" => self.block(before),
            _ => self.plain_action(word, before),
        }
    }

    /// Parses an action without nested nodes.
    fn plain_action(&mut self, word: &str, before: usize) -> Result<Step, Failure> {
        match word {
            "end" => {
                self.close()?;
                Ok(Step::End(End::Block))
            }
            "else" => {
                self.skip_space();
                let here = self.at;
                let next = match self.token()? {
                    Token::Word("if") => Some("if"),
                    Token::Word("with") => Some("with"),
                    _ => {
                        self.at = here;
                        self.close()?;
                        None
                    }
                };
                Ok(Step::End(End::Else(next)))
            }
            "break" | "continue" => {
                if self.loops == 0 {
                    return Err(self.fail(format!("{{{{{word}}}}} outside {{{{range}}}}")));
                }
                self.close()?;
                Ok(Step::Node(if word == "break" { Node::Break } else { Node::Continue }))
            }
            "template" => Ok(Step::Node(self.call_block(before)?)),
            _ => {
                self.at = before;
                let pipeline = self.pipeline("command", false)?;
                self.close()?;
                Ok(Step::Node(Node::Action(pipeline)))
            }
        }
    }

    fn branch(&mut self, first: &'static str) -> Result<Step, Failure> {
        let known = self.variables.len();
        let mut branch = Branch { arms: Vec::new(), otherwise: Vec::new() };
        let mut kind = first;
        loop {
            let end = self.arm(kind, &mut branch.arms)?;
            match end {
                // `else if` shares the end of its branch.
                End::Else(Some(next)) => kind = next,
                end => {
                    self.otherwise(end, &mut branch.otherwise)?;
                    break;
                }
            }
        }
        self.variables.truncate(known);
        Ok(Step::Node(Node::Branch(branch)))
    }

    fn arm(&mut self, kind: &str, arms: &mut Vec<Arm>) -> Result<End, Failure> {
        let pipeline = self.pipeline(kind, false)?;
        self.close()?;
        let mut then = Vec::new();
        let end = self.nodes(&mut then)?;
        arms.push(Arm { moves_dot: kind == "with", pipeline, then });
        Ok(end)
    }

    fn range(&mut self) -> Result<Step, Failure> {
        let known = self.variables.len();
        self.loops += 1;
        let pipeline = self.pipeline("range", true)?;
        self.close()?;
        let mut range = Loop { pipeline, body: Vec::new(), otherwise: Vec::new() };
        match self.nodes(&mut range.body)? {
            End::Else(Some(next)) => {
                if let Step::Node(node) = self.branch(next)? {
                    range.otherwise.push(node);
                }
            }
            end => self.otherwise(end, &mut range.otherwise)?,
        }
        self.loops -= 1;
        self.variables.truncate(known);
        Ok(Step::Node(Node::Range(range)))
    }

    /// Parses the nodes of `else`, if there is one, up to the end.
    fn otherwise(&mut self, end: End, nodes: &mut Vec<Node>) -> Result<(), Failure> {
        match end {
            End::Block => Ok(()),
            End::Text => Err(self.fail("unexpected EOF")),
            End::Else(_) => match self.nodes(nodes)? {
                End::Block => Ok(()),
                _ => Err(self.fail("expected end; found {{else}}")),
            },
        }
    }

    pub(super) fn pipeline(&mut self, context: &str, ranging: bool) -> Result<Pipeline, Failure> {
        let mut pipeline = Pipeline { variables: Vec::new(), declares: false, commands: Vec::new() };
        self.declaration(&mut pipeline, ranging)?;
        loop {
            let command = self.command()?;
            if command.operands.is_empty() {
                return Err(self.fail(format!("missing value for {context}")));
            }
            if !pipeline.commands.is_empty() && !matches!(command.operands[0], Operand::Function(_)) {
                let place = pipeline.commands.len() + 1;
                return Err(self.fail(format!("non executable command in pipeline stage {place}")));
            }
            pipeline.commands.push(command);
            let here = self.at;
            self.skip_space();
            if self.token()? != Token::Pipe {
                self.at = here;
                break;
            }
        }
        if pipeline.declares {
            self.variables.extend(pipeline.variables.iter().cloned());
        }
        Ok(pipeline)
    }

    /// Parses `$x :=`, `$x =` or `$i, $x :=` before a pipeline.
    fn declaration(&mut self, pipeline: &mut Pipeline, ranging: bool) -> Result<(), Failure> {
        let start = self.at;
        let mut names = Vec::new();
        loop {
            self.skip_space();
            let Token::Variable(name) = self.token()? else { break };
            names.push(name.to_owned());
            self.skip_space();
            match self.token()? {
                Token::Declare => {
                    (pipeline.variables, pipeline.declares) = (names, true);
                    return Ok(());
                }
                Token::Assign => {
                    pipeline.variables = names;
                    return Ok(());
                }
                Token::Comma if ranging && names.len() < 2 => {}
                _ => break,
            }
        }
        self.at = start;
        Ok(())
    }

    fn command(&mut self) -> Result<Command, Failure> {
        let mut operands = Vec::new();
        let mut place = Place::default();
        loop {
            let before = self.at;
            self.skip_space();
            let start = self.at;
            if operands.is_empty() {
                (place.start, place.at) = (start, start);
            }
            let operand = match self.token()? {
                Token::Word(word) => self.word_operand(word, start)?,
                Token::Dot => Operand::Dot,
                Token::Field(name) => {
                    let mut path = vec![name.to_owned()];
                    self.more_fields(&mut path);
                    let last = path.last().map_or(0, |name| name.len() + 1);
                    Operand::Field(path, Place { start, end: self.at, at: self.at - last })
                }
                Token::Variable(name) => {
                    if !self.variables.iter().any(|known| known == name) {
                        return Err(self.fail(format!("undefined variable \"${name}\"")));
                    }
                    let mut path = Vec::new();
                    self.more_fields(&mut path);
                    let last = path.last().map_or(0, |name| name.len() + 1);
                    Operand::Variable(
                        name.to_owned(),
                        path,
                        Place { start, end: self.at, at: self.at - last },
                    )
                }
                Token::Literal(value) => Operand::Literal(value),
                Token::Open => {
                    self.enter()?;
                    let inner = self.pipeline("parenthesized pipeline", false)?;
                    self.skip_space();
                    if self.token()? != Token::Close {
                        return Err(self.fail("unclosed left paren"));
                    }
                    self.depth.leave();
                    let mut path = Vec::new();
                    self.more_fields(&mut path);
                    Operand::Group(Box::new(inner), path)
                }
                _ => {
                    self.at = before;
                    return Ok(Command { operands, place });
                }
            };
            operands.push(operand);
            place.end = self.at;
        }
    }

    /// Parses a constant or a function that ends at the current position.
    fn word_operand(&mut self, word: &str, start: usize) -> Result<Operand, Failure> {
        match word {
            "true" | "false" => return Ok(Operand::Literal(Value::Bool(word == "true"))),
            "nil" => return Ok(Operand::Literal(Value::Nil)),
            _ => {}
        }
        let Some(function) = (self.find)(word) else {
            return Err(self.fail(format!("function {} not defined", sandur_model::go_text::quote(word))));
        };
        if !self.rest().starts_with('.') {
            return Ok(Operand::Function(function));
        }
        let place = Place { start, end: self.at, at: start };
        let command = Command { operands: vec![Operand::Function(function)], place };
        let call = Pipeline { variables: Vec::new(), declares: false, commands: vec![command] };
        let mut path = Vec::new();
        self.more_fields(&mut path);
        Ok(Operand::Group(Box::new(call), path))
    }

    fn more_fields(&mut self, path: &mut Vec<String>) {
        while let Some(name) = self.rest().strip_prefix('.').map(identifier).filter(|n| !n.is_empty()) {
            path.push(name.to_owned());
            self.at += name.len() + 1;
        }
    }

    pub(super) fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// The next token of an action. Closing braces are [`Token::End`] and are not consumed.
    pub(super) fn token(&mut self) -> Result<Token<'a>, Failure> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Err(self.fail("unclosed action")) };
        let (token, length) = match first {
            '}' => (Token::End, 0),
            '-' if rest.starts_with("-}}") => (Token::End, 0),
            '|' => (Token::Pipe, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            c if c.is_whitespace() => (Token::Space, c.len_utf8()),
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => match identifier(&rest[1..]) {
                "" => (Token::Dot, 1),
                name => (Token::Field(name), 1 + name.len()),
            },
            '$' => {
                let name = identifier(&rest[1..]);
                (Token::Variable(name), 1 + name.len())
            }
            '"' => self.quoted(rest)?,
            '`' => match rest[1..].find('`') {
                Some(end) => (Token::Literal(Value::constant(rest[1..=end].to_owned())), end + 2),
                None => return Err(self.fail("unterminated raw quoted string")),
            },
            '\'' => {
                let end = rest[1..].find('\'').ok_or_else(|| self.fail("unterminated character constant"))?;
                let c = rest[1..].chars().next().unwrap_or('\0');
                (Token::Literal(Value::Int(i64::from(u32::from(c)))), end + 2)
            }
            c if c.is_ascii_digit() || matches!(c, '+' | '-' | '.') => self.number(rest)?,
            c if c.is_alphabetic() || c == '_' => {
                let word = identifier(rest);
                (Token::Word(word), word.len())
            }
            c => return Err(self.fail(format!("unexpected {c:?} in operand"))),
        };
        self.at += length;
        Ok(token)
    }

    fn quoted(&self, rest: &str) -> Result<(Token<'a>, usize), Failure> {
        let mut escaped = false;
        let end = rest[1..].find(|c| match c {
            _ if escaped => {
                escaped = false;
                false
            }
            '\\' => {
                escaped = true;
                false
            }
            c => c == '"',
        });
        let Some(end) = end else { return Err(self.fail("unterminated quoted string")) };
        let tokens = crate::lexer::tokenize(&rest[..end + 2]);
        match tokens.first() {
            Some(token) if token.kind == crate::lexer::Kind::String => {
                Ok((Token::Literal(Value::constant(token.text.clone())), end + 2))
            }
            _ => Err(self.fail("invalid syntax")),
        }
    }

    fn number(&self, rest: &str) -> Result<(Token<'a>, usize), Failure> {
        let numeric = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
        let length = rest.find(|c| !numeric(c)).unwrap_or(rest.len());
        let text = &rest[..length];
        let plain = text.replace('_', "");
        let hexadecimal = plain.strip_prefix("0x").and_then(|h| i64::from_str_radix(h, 16).ok());
        let value = hexadecimal
            .or_else(|| plain.parse().ok())
            .map(Value::Int)
            .or_else(|| plain.parse().ok().map(Value::Float));
        match value {
            Some(value) => Ok((Token::Literal(value), length)),
            None => Err(self.fail(format!("bad number syntax: {}", sandur_model::go_text::quote(text)))),
        }
    }
}

pub(super) enum Step {
    Node(Node),
    /// An action that adds no node.
    Nothing,
    End(End),
}

fn identifier(text: &str) -> &str {
    &text[..text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())]
}

//! Parses the named blocks of a template: `define`, `block`, `template`.

use super::parse::{End, Failure, Parser, Step, Token};
use super::tree::{Node, Place};
use super::value::Value;

impl Parser<'_> {
    /// Parses `"name"}} nodes {{end}}`, only at the top level.
    pub(super) fn define(&mut self) -> Result<Step, Failure> {
        if self.depth.levels() > 1 {
            return Err(self.fail("unexpected {{define}}"));
        }
        let name = self.block_name("define clause")?;
        self.close()?;
        self.body(name)?;
        Ok(Step::Nothing)
    }

    /// Parses `"name" pipeline}} nodes {{end}}`: a block that is defined and run at one place.
    pub(super) fn block(&mut self, start: usize) -> Result<Step, Failure> {
        let name = self.block_name("block clause")?;
        let pipeline = self.pipeline("block clause", false)?;
        let place = Place { start, end: self.at, at: start };
        self.close()?;
        self.body(name.clone())?;
        Ok(Step::Node(Node::Block(name, Some(pipeline), place)))
    }

    /// Parses `"name"` or `"name" pipeline`.
    pub(super) fn call_block(&mut self, start: usize) -> Result<Node, Failure> {
        let name = self.block_name("template clause")?;
        let here = self.at;
        self.skip_space();
        let is_alone = self.token()? == Token::End;
        self.at = here;
        let pipeline = if is_alone { None } else { Some(self.pipeline("template clause", false)?) };
        let place = Place { start, end: self.at, at: start };
        self.close()?;
        Ok(Node::Block(name, pipeline, place))
    }

    fn block_name(&mut self, context: &str) -> Result<String, Failure> {
        self.skip_space();
        let start = self.at;
        match self.token()? {
            Token::Literal(Value::Text(name)) => Ok(name.to_string()),
            _ => {
                let found = self.text[start..self.at].trim();
                Err(self.fail(format!("unexpected {} in {context}", sandur_model::go_text::quote(found))))
            }
        }
    }

    /// Parses the nodes of a block up to its end. The block sees no variable except its own `$`.
    fn body(&mut self, name: String) -> Result<(), Failure> {
        let outside = std::mem::replace(&mut self.variables, vec![String::new()]);
        let loops = std::mem::take(&mut self.loops);
        let mut nodes = Vec::new();
        let end = self.nodes(&mut nodes)?;
        (self.variables, self.loops) = (outside, loops);
        match end {
            End::Block => _ = self.blocks.insert(name, nodes),
            End::Else(_) => return Err(self.fail("unexpected {{else}}")),
            End::Text => return Err(self.fail("unexpected EOF")),
        }
        Ok(())
    }
}

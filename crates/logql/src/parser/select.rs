//! Parses pipelines: a selector and its stages.

use std::sync::Arc;

use crate::ast::LogExpr;
use crate::error::ParseError;
use crate::lexer::Kind;
use crate::parser::cursor::Parser;
use crate::stage;
use crate::stage::line_filter::LINE_FILTERS;
use crate::stage::node::StageNode;

impl Parser {
    /// Parses a selector and its stages.
    pub fn log(&mut self) -> Result<LogExpr, ParseError> {
        let matchers = self.selector()?;
        let stages = self.stages()?;
        Ok(LogExpr { matchers, stages })
    }

    /// Whether a stage follows; `| unwrap` is not a stage.
    pub fn at_stage(&self) -> bool {
        match self.kind() {
            Kind::Word(word) if LINE_FILTERS.contains(&word) => true,
            Kind::Word("|") => self.peek_second().kind != Kind::Word("unwrap"),
            _ => false,
        }
    }

    /// Parses all stages that follow.
    pub fn stages(&mut self) -> Result<Vec<Arc<dyn StageNode>>, ParseError> {
        let mut stages = Vec::new();
        while self.at_stage() {
            stages.push(stage::parse(self)?);
        }
        Ok(stages)
    }
}

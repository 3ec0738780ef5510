//! The tree of a template: nodes, pipelines, commands and operands; and which fields it reads.

use std::collections::BTreeMap;

use super::functions::Function;
use super::value::Value;

/// A piece of a template.
#[derive(Clone)]
pub enum Node {
    Text(String),
    /// Writes the value, unless the pipeline only sets a variable.
    Action(Pipeline),
    Branch(Branch),
    Range(Loop),
    /// Runs the block of this name with the pipeline's value as its `.`.
    Block(String, Option<Pipeline>, Place),
    Break,
    Continue,
}

/// Blocks by their names.
pub type Blocks = BTreeMap<String, Vec<Node>>;

/// `if` or `with`, every `else if` and `else with` of it, and its `else`. They are one list, so that many of
/// them are not nested.
#[derive(Clone)]
pub struct Branch {
    pub arms: Vec<Arm>,
    pub otherwise: Vec<Node>,
}

/// What is done when a value is true.
#[derive(Clone)]
pub struct Arm {
    /// `with`: the value becomes `.`.
    pub moves_dot: bool,
    pub pipeline: Pipeline,
    pub then: Vec<Node>,
}

/// `range` and its `else`.
#[derive(Clone)]
pub struct Loop {
    pub pipeline: Pipeline,
    pub body: Vec<Node>,
    pub otherwise: Vec<Node>,
}

/// Commands that pass their values on, and the variables that take the last one.
#[derive(Clone)]
pub struct Pipeline {
    pub variables: Vec<String>,
    /// `:=` in place of `=`.
    pub declares: bool,
    pub commands: Vec<Command>,
}

/// Operands: a function and its arguments, or one value.
#[derive(Clone)]
pub struct Command {
    pub operands: Vec<Operand>,
    pub place: Place,
}

/// Where something stands in the template, for error messages.
#[derive(Clone, Copy, Default)]
pub struct Place {
    pub start: usize,
    pub end: usize,
    /// The offset that messages name.
    pub at: usize,
}

#[derive(Clone)]
pub enum Operand {
    /// `.`
    Dot,
    /// `.a.b`
    Field(Vec<String>, Place),
    /// `$x.a`; `$` alone is the empty name.
    Variable(String, Vec<String>, Place),
    Literal(Value),
    Function(&'static Function),
    /// `(pipeline).a`
    Group(Box<Pipeline>, Vec<String>),
}

/// Adds the names of the labels that the nodes look at; false when they may look at any.
pub fn fields(nodes: &[Node], out: &mut Vec<String>) -> bool {
    // Nothing is left out after the first that may look at any: the others have to be known all the same.
    let mut named = true;
    nodes.iter().for_each(|node| named &= node_fields(node, out));
    named
}

fn node_fields(node: &Node, out: &mut Vec<String>) -> bool {
    match node {
        Node::Text(_) | Node::Break | Node::Continue | Node::Block(_, None, _) => true,
        Node::Action(pipeline) | Node::Block(_, Some(pipeline), _) => pipeline_fields(pipeline, out),
        Node::Branch(branch) => {
            let mut named = true;
            for arm in &branch.arms {
                named &= pipeline_fields(&arm.pipeline, out);
                named &= fields(&arm.then, out);
            }
            fields(&branch.otherwise, out) && named
        }
        Node::Range(range) => {
            let of_pipeline = pipeline_fields(&range.pipeline, out);
            let of_body = fields(&range.body, out);
            fields(&range.otherwise, out) && of_body && of_pipeline
        }
    }
}

fn pipeline_fields(pipeline: &Pipeline, out: &mut Vec<String>) -> bool {
    let operands = pipeline.commands.iter().flat_map(|c| &c.operands);
    let mut named = true;
    operands.for_each(|operand| named &= operand_fields(operand, out));
    named
}

fn operand_fields(operand: &Operand, out: &mut Vec<String>) -> bool {
    match operand {
        Operand::Dot => false,
        Operand::Field(path, _) => {
            out.extend(path.first().cloned());
            true
        }
        Operand::Variable(name, path, _) if name.is_empty() => {
            out.extend(path.first().cloned());
            !path.is_empty()
        }
        Operand::Variable(..) | Operand::Literal(_) | Operand::Function(_) => true,
        Operand::Group(pipeline, _) => pipeline_fields(pipeline, out),
    }
}

/// Whether the nodes name a function. As deep as the parser lets templates be.
pub fn calls(nodes: &[Node], name: &str) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(_) | Node::Break | Node::Continue | Node::Block(_, None, _) => false,
        Node::Action(pipeline) | Node::Block(_, Some(pipeline), _) => pipeline_calls(pipeline, name),
        Node::Branch(branch) => {
            let in_arm = |arm: &Arm| pipeline_calls(&arm.pipeline, name) || calls(&arm.then, name);
            branch.arms.iter().any(in_arm) || calls(&branch.otherwise, name)
        }
        Node::Range(range) => {
            pipeline_calls(&range.pipeline, name) || calls(&range.body, name) || calls(&range.otherwise, name)
        }
    })
}

fn pipeline_calls(pipeline: &Pipeline, name: &str) -> bool {
    pipeline.commands.iter().flat_map(|command| &command.operands).any(|operand| match operand {
        Operand::Function(function) => function.name == name,
        Operand::Group(pipeline, _) => pipeline_calls(pipeline, name),
        Operand::Dot | Operand::Field(..) | Operand::Variable(..) | Operand::Literal(_) => false,
    })
}

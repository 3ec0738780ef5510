//! The tree of a template: nodes, pipelines, commands and operands, and the fields that it reads.

use std::collections::BTreeMap;

use super::functions::Function;
use super::value::Value;

/// A node of a template.
#[derive(Clone)]
pub enum Node {
    Text(String),
    /// Writes the value, unless the pipeline only sets variables.
    Action(Pipeline),
    Branch(Branch),
    Range(Loop),
    /// Runs the block of this name, with the pipeline's value as its `.`.
    Block(String, Option<Pipeline>, Place),
    Break,
    Continue,
}

/// The blocks by name.
pub type Blocks = BTreeMap<String, Vec<Node>>;

/// An `if` or `with` with all its `else if` and `else with` branches, and its `else`. Branches are one
/// list, so that many of them are not nested.
#[derive(Clone)]
pub struct Branch {
    pub arms: Vec<Arm>,
    pub otherwise: Vec<Node>,
}

/// A condition with the nodes that run if it is true.
#[derive(Clone)]
pub struct Arm {
    /// Whether the value becomes `.` (`with`).
    pub moves_dot: bool,
    pub pipeline: Pipeline,
    pub then: Vec<Node>,
}

/// A `range` with its `else`.
#[derive(Clone)]
pub struct Loop {
    pub pipeline: Pipeline,
    pub body: Vec<Node>,
    pub otherwise: Vec<Node>,
}

/// Commands that pass their results on, and the variables that are set to the last result.
#[derive(Clone)]
pub struct Pipeline {
    pub variables: Vec<String>,
    /// Whether it declares the variables (`:=`) or sets existing ones (`=`).
    pub declares: bool,
    pub commands: Vec<Command>,
}

/// A function with its arguments, or one value.
#[derive(Clone)]
pub struct Command {
    pub operands: Vec<Operand>,
    pub place: Place,
}

/// The position in the template, for error messages.
#[derive(Clone, Copy, Default)]
pub struct Place {
    pub start: usize,
    pub end: usize,
    /// The offset in error messages.
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

/// Adds the names of the labels that the nodes read; returns false if they may read any.
pub fn fields(nodes: &[Node], out: &mut Vec<String>) -> bool {
    // All nodes are visited, because names are needed even if another node may read any label.
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

/// Whether the nodes call a function. Recurses at most as deep as the parser allows templates to nest.
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

//! A function call: its arguments by parameter, and its scope.

use crate::error::{Error, Result};
use crate::group::Origin;
use crate::number::Number;
use crate::parameter::{Argument, Parameter};
use crate::scope::Scope;
use crate::series::Series;

/// A function, as its calls see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callee {
    pub(crate) name: &'static str,
    pub(crate) origin: Origin,
    pub(crate) parameters: &'static [Parameter],
}

/// The arguments of a function, checked against its parameters.
#[derive(Debug)]
pub struct Call {
    pub(crate) function: Callee,
    pub(crate) scope: Scope,
    slots: Vec<Argument>,
    given: Vec<bool>,
    rest: Vec<Argument>,
}

/// The index of a node in a path, or the name of a tag.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeOrTag {
    Node(i64),
    Tag(String),
}

impl NodeOrTag {
    /// Its text in Python's form.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Node(node) => node.to_string(),
            Self::Tag(tag) => tag.clone(),
        }
    }

    fn of(self_: Argument) -> Option<Self> {
        match self_ {
            Argument::Number(Number::Int(node)) => Some(Self::Node(node)),
            Argument::Number(Number::Float(float)) if float.fract() != 0.0 => {
                Some(Self::Tag(Number::Float(float).to_string()))
            }
            Argument::Flag(flag) => Some(Self::Node(flag.into())),
            Argument::Text(text) => Some(Self::Tag(text)),
            _ => None,
        }
    }
}

impl Call {
    /// Assigns arguments to parameters, and checks them.
    pub(crate) fn bind(
        function: Callee,
        scope: Scope,
        by_place: Vec<Argument>,
        by_name: Vec<(String, Argument)>,
    ) -> Result<Self> {
        let (name, parameters) = (function.name, function.parameters);
        let single = parameters.iter().filter(|parameter| !parameter.multiple).count();
        let multiple = parameters.last().filter(|parameter| parameter.multiple);
        let mut slots: Vec<Argument> = Vec::with_capacity(parameters.len());
        let mut given = vec![false; parameters.len()];
        let mut rest = Vec::new();
        for (place, value) in by_place.into_iter().enumerate() {
            match parameters.get(place).filter(|_| place < single) {
                Some(parameter) => {
                    given[place] = true;
                    slots.push(value.checked(name, parameter)?);
                }
                None => {
                    let parameter = multiple.ok_or_else(|| {
                        Error::invalid(format!("Too many parameters specified for function \"{name}\""))
                    })?;
                    given[single] = true;
                    rest.push(value.checked(name, parameter)?);
                }
            }
        }
        slots.resize_with(parameters.len(), || Argument::None);
        for (key, value) in by_name {
            let place = parameters.iter().position(|parameter| parameter.is_named(&key));
            let place = place.filter(|place| !given[*place] && !parameters[*place].multiple);
            let place = place.ok_or_else(|| {
                let what = format!("\"{key}\" is not a parameter of function \"{name}\", or is given twice");
                Error::invalid(format!("Unexpected key word arguments: {what}"))
            })?;
            given[place] = true;
            slots[place] = value.checked(name, &parameters[place])?;
        }
        for (place, parameter) in parameters.iter().enumerate() {
            if parameter.required && !given[place] {
                let missing = parameter.name;
                let message = format!("Missing required parameter \"{missing}\" for function \"{name}\"");
                return Err(Error::invalid(message));
            }
            if let Some(preset) = parameter.preset.filter(|_| !given[place]) {
                slots[place] = preset.into();
            }
        }
        Ok(Self { function, scope, slots, given, rest })
    }

    fn take(&mut self, place: usize) -> Argument {
        self.slots.get_mut(place).map_or(Argument::None, |slot| std::mem::replace(slot, Argument::None))
    }

    fn wrong(&self, place: usize) -> Error {
        let parameter = self.function.parameters.get(place).map_or("?", |parameter| parameter.name);
        let name = self.function.name;
        Error::invalid(format!("function \"{name}\" cannot take what parameter \"{parameter}\" is given"))
    }

    /// Whether an argument other than None was given.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.given.get(place).is_some_and(|given| *given)
            && !matches!(self.slots.get(place), Some(Argument::None) | None)
    }

    /// Takes the series of the first parameter.
    pub(crate) fn series(&mut self) -> Result<Vec<Series>> {
        self.list(0)
    }

    /// Takes the series of a parameter.
    pub(crate) fn list(&mut self, place: usize) -> Result<Vec<Series>> {
        match self.take(place) {
            Argument::Series(list) => Ok(list),
            Argument::None => Ok(Vec::new()),
            _ => Err(self.wrong(place)),
        }
    }

    /// Takes the lists of series of the first parameter.
    pub(crate) fn lists(&mut self) -> Result<Vec<Vec<Series>>> {
        match self.take(0) {
            Argument::Lists(lists) => Ok(lists),
            _ => Err(self.wrong(0)),
        }
    }

    /// Takes all lists of a parameter with several lists.
    pub(crate) fn rest_lists(&mut self) -> Result<Vec<Vec<Series>>> {
        let lists = std::mem::take(&mut self.rest).into_iter();
        let wrong = self.function.parameters.len().saturating_sub(1);
        let list = |argument| match argument {
            Argument::Series(list) => Ok(list),
            _ => Err(self.wrong(wrong)),
        };
        lists.map(list).collect()
    }

    /// Takes the nodes of a parameter with several nodes.
    pub(crate) fn nodes(&mut self) -> Result<Vec<NodeOrTag>> {
        let wrong = self.wrong(self.function.parameters.len().saturating_sub(1));
        let nodes = std::mem::take(&mut self.rest).into_iter().map(NodeOrTag::of);
        nodes.collect::<Option<_>>().ok_or(wrong)
    }

    /// Takes the node of a parameter.
    pub(crate) fn node(&mut self, place: usize) -> Result<NodeOrTag> {
        NodeOrTag::of(self.take(place)).ok_or_else(|| self.wrong(place))
    }

    /// Takes the texts of a parameter with several texts.
    pub(crate) fn texts(&mut self) -> Result<Vec<String>> {
        let wrong = self.wrong(self.function.parameters.len().saturating_sub(1));
        let text = |argument| match argument {
            Argument::Text(text) => Some(text),
            Argument::Number(number) => Some(number.to_string()),
            _ => None,
        };
        std::mem::take(&mut self.rest).into_iter().map(text).collect::<Option<_>>().ok_or(wrong)
    }

    /// Takes the texts of a parameter with several texts; fails if any argument is not a text.
    pub(crate) fn only_texts(&mut self) -> Result<Vec<String>> {
        match self.rest.iter().all(|argument| matches!(argument, Argument::Text(_))) {
            true => self.texts(),
            false => Err(self.wrong(self.function.parameters.len().saturating_sub(1))),
        }
    }

    /// Takes a required text.
    pub(crate) fn text(&mut self, place: usize) -> Result<String> {
        self.maybe_text(place)?.ok_or_else(|| self.wrong(place))
    }

    /// Takes an optional text.
    pub(crate) fn maybe_text(&mut self, place: usize) -> Result<Option<String>> {
        match self.take(place) {
            Argument::None => Ok(None),
            Argument::Text(text) => Ok(Some(text)),
            _ => Err(self.wrong(place)),
        }
    }

    /// A required number.
    pub(crate) fn number(&self, place: usize) -> Result<Number> {
        self.maybe_number(place)?.ok_or_else(|| self.wrong(place))
    }

    /// An optional number.
    pub(crate) fn maybe_number(&self, place: usize) -> Result<Option<Number>> {
        match self.slots.get(place) {
            Some(Argument::Number(number)) => Ok(Some(*number)),
            Some(Argument::None) | None => Ok(None),
            _ => Err(self.wrong(place)),
        }
    }

    /// A required number as a float.
    pub(crate) fn float(&self, place: usize) -> Result<f64> {
        self.number(place).map(Number::value)
    }

    /// An optional number as a float.
    pub(crate) fn maybe_float(&self, place: usize) -> Result<Option<f64>> {
        Ok(self.maybe_number(place)?.map(Number::value))
    }

    /// A required integer.
    pub(crate) fn integer(&self, place: usize) -> Result<i64> {
        match self.number(place)? {
            Number::Int(value) => Ok(value),
            Number::Float(_) => Err(self.wrong(place)),
        }
    }

    /// Whether a boolean parameter is true.
    pub(crate) fn flag(&self, place: usize) -> bool {
        matches!(self.slots.get(place), Some(Argument::Flag(true)))
    }

    /// Takes the argument of a parameter unchanged.
    pub(crate) fn argument(&mut self, place: usize) -> Argument {
        self.take(place)
    }
}

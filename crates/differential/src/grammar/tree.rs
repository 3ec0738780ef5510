//! Queries as trees, which can be printed and reduced.

use std::fmt::{self, Display, Formatter};

/// A query of any type.
#[derive(Clone, Debug)]
pub enum Query {
    /// A log query.
    Log(Log),
    /// A metric query.
    Metric(Metric),
    /// Text without a tree: an invalid query, or one from the user.
    Text(String),
}

/// A selector with its stages.
#[derive(Clone, Debug)]
pub struct Log {
    /// Matchers as text.
    pub matchers: Vec<String>,
    /// Stages and line filters as text.
    pub stages: Vec<String>,
}

/// `| unwrap` with the label filters after it.
#[derive(Clone, Debug)]
pub struct Unwrap {
    /// The label, possibly with a conversion.
    pub what: String,
    /// Label filters after it.
    pub filters: Vec<String>,
}

/// A metric query.
#[derive(Clone, Debug)]
pub enum Metric {
    /// A number or `vector(n)`.
    Constant(String),
    /// A function over a window.
    Window {
        /// Its name.
        function: String,
        /// The number before the selector.
        parameter: Option<String>,
        /// The log query.
        log: Log,
        /// The label whose values are used.
        unwrap: Option<Unwrap>,
        /// The range such as `[5m]`, possibly with an offset.
        range: String,
        /// Whether the range directly follows the selector.
        early_range: bool,
        /// `by (..)` or `without (..)`.
        grouping: Option<String>,
    },
    /// A function over a vector.
    Vector {
        /// Its name.
        function: String,
        /// The number before the vector.
        parameter: Option<String>,
        /// The vector.
        inner: Box<Metric>,
        /// `by (..)` or `without (..)`.
        grouping: Option<String>,
        /// Whether the grouping precedes the parenthesis.
        early_grouping: bool,
    },
    /// A binary operation.
    Binary {
        /// Left side.
        left: Box<Metric>,
        /// Operator with its modifiers.
        operator: String,
        /// Right side.
        right: Box<Metric>,
        /// Whether both sides are in parentheses.
        parentheses: bool,
    },
    /// `label_replace`.
    Replace {
        /// The vector.
        inner: Box<Metric>,
        /// The four strings.
        arguments: String,
    },
}

impl Query {
    /// Returns queries from which a part was removed, with the largest reduction first.
    pub fn smaller(&self) -> Vec<Self> {
        match self {
            Self::Log(log) => log.smaller().into_iter().map(Self::Log).collect(),
            Self::Metric(metric) => metric.smaller().into_iter().map(Self::Metric).collect(),
            Self::Text(_) => Vec::new(),
        }
    }

    /// Calls `change` for every node, the innermost first.
    pub fn each_metric(&mut self, change: &mut dyn FnMut(&mut Metric)) {
        if let Self::Metric(metric) = self {
            metric.each(change);
        }
    }

    /// Calls `change` for every selector with its stages.
    pub fn each_log(&mut self, change: &mut dyn FnMut(&mut Log)) {
        if let Self::Log(log) = self {
            change(log);
        }
        self.each_metric(&mut |metric| {
            if let Metric::Window { log, .. } = metric {
                change(log);
            }
        });
    }

    /// Calls `change` for every list of stages, and of filters after `unwrap`.
    pub fn each_part(&mut self, change: &mut dyn FnMut(&mut Vec<String>)) {
        self.each_log(&mut |log| change(&mut log.stages));
        self.each_metric(&mut |metric| {
            if let Metric::Window { unwrap: Some(unwrap), .. } = metric {
                change(&mut unwrap.filters);
            }
        });
    }
}

impl Log {
    /// Removes one of the stages or matchers.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.stages.len() > 3 {
            let half = self.stages.len() / 2;
            all.push(Self { stages: self.stages[half..].to_vec(), ..self.clone() });
            all.push(Self { stages: self.stages[..half].to_vec(), ..self.clone() });
        }
        all.extend(
            (0..self.stages.len()).map(|at| Self { stages: without(&self.stages, at), ..self.clone() }),
        );
        if self.matchers.len() > 1 {
            let cut = |at| Self { matchers: without(&self.matchers, at), ..self.clone() };
            all.extend((0..self.matchers.len()).map(cut));
        }
        all
    }
}

fn without(from: &[String], at: usize) -> Vec<String> {
    let mut rest = from.to_vec();
    rest.remove(at);
    rest
}

impl Metric {
    fn each(&mut self, change: &mut dyn FnMut(&mut Self)) {
        match self {
            Self::Constant(_) | Self::Window { .. } => {}
            Self::Vector { inner, .. } | Self::Replace { inner, .. } => inner.each(change),
            Self::Binary { left, right, .. } => {
                left.each(change);
                right.each(change);
            }
        }
        change(self);
    }

    fn smaller(&self) -> Vec<Self> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::Window { log, unwrap, grouping, .. } => {
                let mut all = Vec::new();
                for smaller in log.smaller() {
                    let mut cut = self.clone();
                    if let Self::Window { log, .. } = &mut cut {
                        *log = smaller;
                    }
                    all.push(cut);
                }
                if grouping.is_some() {
                    let mut cut = self.clone();
                    if let Self::Window { grouping, .. } = &mut cut {
                        *grouping = None;
                    }
                    all.push(cut);
                }
                for at in 0..unwrap.as_ref().map_or(0, |u| u.filters.len()) {
                    let mut cut = self.clone();
                    if let Self::Window { unwrap: Some(unwrap), .. } = &mut cut {
                        unwrap.filters.remove(at);
                    }
                    all.push(cut);
                }
                all
            }
            Self::Vector { inner, grouping, .. } => {
                let mut all = vec![(**inner).clone()];
                if grouping.is_some() {
                    let mut cut = self.clone();
                    if let Self::Vector { grouping, .. } = &mut cut {
                        *grouping = None;
                    }
                    all.push(cut);
                }
                all.extend(self.with_inner(inner.smaller()));
                all
            }
            Self::Replace { inner, .. } => {
                let mut all = vec![(**inner).clone()];
                all.extend(self.with_inner(inner.smaller()));
                all
            }
            Self::Binary { left, operator, right, parentheses } => {
                let mut all = vec![(**left).clone(), (**right).clone()];
                let make = |left: Box<Self>, right: Box<Self>| Self::Binary {
                    left,
                    operator: operator.clone(),
                    right,
                    parentheses: *parentheses,
                };
                all.extend(left.smaller().into_iter().map(|l| make(Box::new(l), right.clone())));
                all.extend(right.smaller().into_iter().map(|r| make(left.clone(), Box::new(r))));
                all
            }
        }
    }

    fn with_inner(&self, inners: Vec<Self>) -> Vec<Self> {
        let place = |new: Self| {
            let mut cut = self.clone();
            if let Self::Vector { inner, .. } | Self::Replace { inner, .. } = &mut cut {
                **inner = new;
            }
            cut
        };
        inners.into_iter().map(place).collect()
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(log) => log.fmt(f),
            Self::Metric(metric) => metric.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Display for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.matchers.join(", "))?;
        self.stages.iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

impl Display for Metric {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(text) => f.write_str(text),
            Self::Window { .. } => self.fmt_window(f),
            Self::Vector { function, parameter, inner, grouping, early_grouping } => {
                f.write_str(function)?;
                match grouping {
                    Some(grouping) if *early_grouping => write!(f, " {grouping} ")?,
                    _ => {}
                }
                f.write_str("(")?;
                if let Some(parameter) = parameter {
                    write!(f, "{parameter}, ")?;
                }
                write!(f, "{inner})")?;
                match grouping {
                    Some(grouping) if !*early_grouping => write!(f, " {grouping}"),
                    _ => Ok(()),
                }
            }
            Self::Binary { left, operator, right, parentheses: true } => {
                write!(f, "({left}) {operator} ({right})")
            }
            Self::Binary { left, operator, right, parentheses: false } => {
                write!(f, "{left} {operator} {right}")
            }
            Self::Replace { inner, arguments } => write!(f, "label_replace({inner}, {arguments})"),
        }
    }
}

impl Metric {
    fn fmt_window(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self::Window { function, parameter, log, unwrap, range, early_range, grouping } = self else {
            return Ok(());
        };
        write!(f, "{function}(")?;
        if let Some(parameter) = parameter {
            write!(f, "{parameter}, ")?;
        }
        write!(f, "{{{}}}", log.matchers.join(", "))?;
        if *early_range {
            write!(f, "{range}")?;
        }
        log.stages.iter().try_for_each(|stage| write!(f, " {stage}"))?;
        if let Some(unwrap) = unwrap {
            write!(f, " | unwrap {}", unwrap.what)?;
            unwrap.filters.iter().try_for_each(|filter| write!(f, " | {filter}"))?;
        }
        if !*early_range {
            write!(f, " {range}")?;
        }
        f.write_str(")")?;
        grouping.iter().try_for_each(|grouping| write!(f, " {grouping}"))
    }
}

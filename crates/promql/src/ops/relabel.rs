//! `label_replace` and `label_join`: change the labels of series.

use foldhash::{HashMap, HashMapExt};
use sandur_memory::job::spend;
use sandur_model::go_replacement::expand;
use sandur_model::{BoundedRegex, RegexOptions, go_regex, group_span};
use sandur_query::Error;

use crate::column::Column;
use crate::labels::{LabelsId, Text};
use crate::ops::binary::same_labels;
use crate::run::{AnyOperator, Gathered, Operator, Outbox, Pull, Run};

/// A change of labels.
pub enum Change {
    /// `label_replace`: sets a label to the expansion of a regular expression's match on another label.
    Replace {
        /// The label that is set.
        target: String,
        /// The template of the new value, with references to groups of the expression.
        replacement: String,
        /// The label that is matched.
        source: String,
        /// The expression, which must match the complete value.
        regex: BoundedRegex,
    },
    /// `label_join`: sets a label to the joined values of others.
    Join {
        /// The label that is set.
        target: String,
        /// The text between two values.
        separator: String,
        /// The labels whose values are joined.
        sources: Vec<String>,
    },
}

/// Compiles the regular expression of `label_replace`.
pub fn compile(pattern: &str) -> Result<BoundedRegex, Error> {
    let options = RegexOptions { utf8: true, prefilter: true, groups: true };
    let translated = go_regex::translate(pattern);
    translated
        .and_then(|pattern| BoundedRegex::parse(&format!("^(?s:{pattern})$"), true))
        .and_then(|hir| BoundedRegex::new(&hir, options))
        .map_err(|_| Error::Invalid(format!("invalid regular expression in label_replace(): {pattern}")))
}

/// The longest value of a label that is created. Without a limit, values that include themselves would
/// double at each nested call.
const VALUE_BYTES_MAX: usize = 64 << 10;

fn check_length(function: &str, bytes: usize) -> Result<(), Error> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Limit(format!(
        "{function}() would make a label value of {bytes} bytes or more, at most {VALUE_BYTES_MAX}; put less \
         into the label"
    )))
}

/// Changes the labels of series.
pub struct Relabel {
    /// The input operator.
    pub inner: AnyOperator,
    /// The gathered input.
    pub gathered: Gathered,
    /// The change.
    pub change: Change,
    /// The results, once they are computed.
    pub outbox: Option<Outbox>,
}

impl Operator for Relabel {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some(leaf) = self.gathered.gather(&mut self.inner, run)? {
            return Ok(Pull::Need(leaf));
        }
        let mut columns = std::mem::take(&mut self.gathered.columns);
        for column in &mut columns {
            spend(64)?;
            self.change(column, run)?;
        }
        let columns = merge(columns, run)?;
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

impl Relabel {
    fn change(&self, column: &mut Column, run: &mut Run) -> Result<(), Error> {
        let pool = &mut run.pool;
        let (target, value) = match &self.change {
            Change::Join { target, separator, sources } => {
                let sources: Vec<Text> = sources.iter().map(|name| pool.text_id(name)).collect();
                let values = sources.iter().map(|name| pool.text(pool.get(column.labels, *name)));
                let values: Vec<&str> = values.collect();
                let bytes = values.iter().map(|value| value.len() + separator.len()).sum();
                check_length("label_join", bytes)?;
                (target, values.join(separator))
            }
            Change::Replace { target, replacement, source, regex } => {
                let source = pool.text_id(source);
                let text = pool.text(pool.get(column.labels, source));
                let mut slots = vec![None; regex.slot_count()];
                if !regex.find(text.as_bytes(), 0, &mut slots)? {
                    return Ok(());
                }
                let group = |n: usize| {
                    group_span(&slots, n).and_then(|(from, to)| text.get(from..to)).unwrap_or_default()
                };
                let mut value = String::new();
                expand(regex, replacement, group, |piece| {
                    spend(16)?;
                    value.push_str(piece);
                    check_length("label_replace", value.len())
                })?;
                (target, value)
            }
        };
        let (target, value) = (pool.text_id(target), pool.text_id(&value));
        column.labels = pool.with(column.labels, target, value);
        if target == Text::NAME {
            column.drop_name = false;
        }
        Ok(pool.check()?)
    }
}

/// Joins series with equal labels; fails if two of them have a sample at the same step.
fn merge(columns: Vec<Column>, run: &mut Run) -> Result<Vec<Column>, Error> {
    spend(columns.len() * 16)?;
    run.keep(columns.len() as u64 * (32 + size_of::<Column>() as u64))?;
    let mut places: HashMap<LabelsId, usize> = HashMap::with_capacity(columns.len());
    let mut merged: Vec<Column> = Vec::with_capacity(columns.len());
    for column in columns {
        let next = merged.len();
        let place = *places.entry(column.labels).or_insert(next);
        if place == next {
            merged.push(column);
            continue;
        }
        let kept = &mut merged[place];
        spend(column.values.len())?;
        for step in column.steps() {
            if kept.has(step) && kept.histogram(step).is_some() == column.histogram(step).is_some() {
                return Err(same_labels());
            }
            if let Some(sample) = column.sample(step) {
                run.put(kept, step, sample)?;
            }
        }
    }
    Ok(merged)
}

//! `info`: adds labels of info metrics with the same instance and job.

use foldhash::{HashMap, HashMapExt, HashSet};
use sandur_memory::job::spend;
use sandur_model::{MatchOp, Matcher};
use sandur_query::{Error, SampleSelection};

use crate::column::{Column, Grid};
use crate::labels::{LabelsId, METRIC_NAME, Text, is_reserved};
use crate::ops::binary::same_labels;
use crate::ops::select::{Select, Take};
use crate::run::{AnyOperator, Gathered, Operator, Outbox, Pull, Run};
use crate::span::Span;
use crate::timing::Timing;

/// The labels that identify the target of an info metric.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

/// Characters with a meaning in regular expressions.
const SPECIAL: &str = r"\.+*?()|[]{}^$#&-~";

/// The bytes of a series besides its samples: its identifying labels, its place in the result.
const SERIES_BYTES: u64 = 160;

/// Adds labels of info metrics to series.
pub struct Info {
    /// The input operator.
    pub inner: AnyOperator,
    /// The gathered input.
    pub gathered: Gathered,
    /// The matching info metrics, once they are selected.
    pub infos: Option<(AnyOperator, Gathered)>,
    /// Matchers for the names of info metrics.
    pub names: Vec<Matcher>,
    /// Matchers for the labels that are added; if empty, all labels are.
    pub data: Vec<Matcher>,
    /// The time at which info metrics are read.
    pub timing: Timing,
    /// The steps.
    pub grid: Grid,
    /// The place of the call in the query.
    pub span: Span,
    /// The results, once they are computed.
    pub outbox: Option<Outbox>,
}

impl Operator for Info {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        if let Some(leaf) = self.gathered.gather(&mut self.inner, run)? {
            return Ok(Pull::Need(leaf));
        }
        let ignored = self.ignored(run);
        if self.infos.is_none() {
            let infos = self.ask(&ignored, run)?;
            self.infos = Some((infos, Gathered::default()));
        }
        let mut found = Vec::new();
        if let Some((infos, gathered)) = &mut self.infos {
            if let Some(leaf) = gathered.gather(infos, run)? {
                return Ok(Pull::Need(leaf));
            }
            found = std::mem::take(&mut gathered.columns);
        }
        let base = std::mem::take(&mut self.gathered.columns);
        let columns = self.combine(&base, &found, &ignored, run)?;
        Ok(self.outbox.insert(Outbox::new(columns)).next())
    }
}

/// A matcher; `None` if it does not compile.
fn matcher(name: &str, op: MatchOp, value: &str) -> Option<Matcher> {
    Matcher::new(name, op, value).ok()
}

impl Info {
    /// The matchers for names, with Prometheus's default if none of them is positive.
    fn name_matchers(&self) -> Vec<Matcher> {
        let positive = |m: &Matcher| matches!(m.op(), MatchOp::Equal | MatchOp::Regex);
        if self.names.iter().any(positive) {
            return self.names.clone();
        }
        let first = match self.names.is_empty() {
            true => matcher(METRIC_NAME, MatchOp::Equal, "target_info"),
            false => matcher(METRIC_NAME, MatchOp::Regex, ".+_info"),
        };
        first.into_iter().chain(self.names.iter().cloned()).collect()
    }

    /// The series of the input that are info metrics themselves.
    fn ignored(&self, run: &Run) -> HashSet<LabelsId> {
        let matchers = self.name_matchers();
        let is_info = |labels: &LabelsId| {
            let name = run.pool.text(run.pool.get(*labels, Text::NAME));
            matchers.iter().all(|matcher| matcher.matches(name))
        };
        self.gathered.columns.iter().map(|column| column.labels).filter(is_info).collect()
    }

    /// Selects the info metrics that match the series.
    fn ask(&self, ignored: &HashSet<LabelsId>, run: &mut Run) -> Result<AnyOperator, Error> {
        let identifying = IDENTIFYING.map(|name| run.pool.text_id(name));
        let about = self.gathered.columns.iter().filter(|column| !ignored.contains(&column.labels));
        let about = about.map(|column| identifying.map(|label| run.pool.get(column.labels, label)));
        // A series with neither label has no info metrics.
        let about: HashSet<[Text; 2]> = about.filter(|values| *values != [Text::EMPTY; 2]).collect();
        if about.is_empty() {
            return Ok(Box::new(crate::ops::simple::Ready(None)));
        }
        let mut matchers = Vec::new();
        for (n, name) in IDENTIFYING.into_iter().enumerate() {
            // A missing label is the empty alternative.
            let values: HashSet<Text> = about.iter().map(|values| values[n]).collect();
            let escaped = |value: &Text| {
                let mut text = String::new();
                for c in run.pool.text(*value).chars() {
                    if SPECIAL.contains(c) {
                        text.push('\\');
                    }
                    text.push(c);
                }
                text
            };
            let alternatives: Vec<String> = values.iter().map(escaped).collect();
            // If there are too many values for a regular expression, all info metrics are read, and others
            // are dropped later.
            let known = matcher(name, MatchOp::Regex, &alternatives.join("|"));
            matchers.extend(known.or_else(|| matcher(name, MatchOp::Regex, ".*")));
        }
        matchers.extend(self.data.iter().cloned());
        matchers.extend(self.name_matchers());
        let (first, last) = (self.timing.reference(self.grid.start), self.timing.reference(self.grid.last()));
        let lookback = run.options.lookback_ms;
        let selection = SampleSelection {
            matchers,
            first_ms: first.saturating_sub(lookback).saturating_add(1),
            last_ms: last,
            labels: None,
            range_ms: 0,
            step_ms: self.grid.interval,
            function: "info",
            starts: false,
            presence_only: false,
            statistics_only: false,
        };
        let leaf = run.add_leaf(selection);
        let window = (self.timing, lookback);
        Ok(Box::new(Select::new(leaf, self.grid, window, Take::Milliseconds, None, self.span)))
    }

    fn combine(
        &self,
        base: &[Column],
        infos: &[Column],
        ignored: &HashSet<LabelsId>,
        run: &mut Run,
    ) -> Result<Vec<Column>, Error> {
        let identifying = IDENTIFYING.map(|name| run.pool.text_id(name));
        let key =
            |labels: LabelsId, run: &mut Run| run.pool.filtered(labels, |name| identifying.contains(&name));
        let base_keys: Vec<LabelsId> = base.iter().map(|column| key(column.labels, run)).collect();
        let info_keys: Vec<(Text, LabelsId)> = infos
            .iter()
            .map(|column| (run.pool.get(column.labels, Text::NAME), key(column.labels, run)))
            .collect();
        run.keep((base.len() + infos.len()) as u64 * SERIES_BYTES)?;
        let mut seen = HashSet::default();
        let names = info_keys.iter().map(|(name, _)| *name).filter(|name| seen.insert(*name));
        let names: Vec<Text> = names.collect();
        let data: Vec<Text> = self.data.iter().map(|matcher| run.pool.text_id(matcher.name())).collect();
        let needs_info = self.data.iter().any(|matcher| !matcher.matches_empty());
        let (mut places, mut columns): (HashMap<LabelsId, usize>, Vec<Column>) = (HashMap::new(), Vec::new());
        let mut newest: HashMap<(Text, LabelsId), usize> = HashMap::new();
        for step in 0..self.grid.steps {
            spend(infos.len() + base.len() * 8 + 8)?;
            newest.clear();
            for (n, info) in infos.iter().enumerate().filter(|(_, info)| info.has(step)) {
                self.newer(&mut newest, info_keys[n], (n, info), infos, step, run)?;
            }
            for (n, column) in base.iter().enumerate() {
                spend(names.len() * 16)?;
                let Some(sample) = column.sample(step) else { continue };
                let mut labels = column.labels;
                if !ignored.contains(&labels) {
                    let found = names.iter().filter_map(|name| newest.get(&(*name, base_keys[n])));
                    let found: Vec<LabelsId> = found.map(|n| infos[*n].labels).collect();
                    if found.is_empty() && needs_info {
                        continue;
                    }
                    labels = enriched(labels, &found, &data, run)?;
                }
                let next = columns.len();
                let place = *places.entry(labels).or_insert(next);
                if place == next {
                    columns.push(run.column(labels, column.drop_name, self.grid.steps)?);
                }
                if columns[place].has(step) {
                    return Err(same_labels());
                }
                run.put(&mut columns[place], step, sample)?;
            }
        }
        run.pool.check()?;
        Ok(columns)
    }

    /// Keeps the newer of two info series with the same key; fails if their samples have the same time.
    fn newer(
        &self,
        newest: &mut HashMap<(Text, LabelsId), usize>,
        key: (Text, LabelsId),
        (n, info): (usize, &Column),
        infos: &[Column],
        step: usize,
        run: &Run,
    ) -> Result<(), Error> {
        let Some(other) = newest.get(&key).map(|n| &infos[*n]) else {
            newest.insert(key, n);
            return Ok(());
        };
        let (before, now) = (other.values[step], info.values[step]);
        if before == now {
            let shown = [other, info].map(|column| run.pool.show(column.labels));
            return Err(Error::Invalid(format!(
                "found duplicate series for info metric: existing {} @ {before}, new {} @ {now}",
                shown[0], shown[1]
            )));
        }
        if before < now {
            newest.insert(key, n);
        }
        Ok(())
    }
}

/// A label set with the labels of info series that it lacks.
fn enriched(base: LabelsId, infos: &[LabelsId], data: &[Text], run: &mut Run) -> Result<LabelsId, Error> {
    let mut added: Vec<(Text, Text)> = Vec::new();
    for info in infos {
        for (name, value) in run.pool.set(*info) {
            if is_reserved(*name) || !(data.is_empty() || data.contains(name)) {
                continue;
            }
            match added.iter().find(|(known, _)| known == name) {
                Some((_, known)) if known != value => {
                    return Err(Error::Invalid(format!("conflicting label: {}", run.pool.text(*name))));
                }
                Some(_) => {}
                None if run.pool.get(base, *name) != Text::EMPTY => {}
                None => added.push((*name, *value)),
            }
        }
    }
    Ok(added.into_iter().fold(base, |labels, (name, value)| run.pool.with(labels, name, value)))
}

//! The groups of a range aggregation: one worker's label sets as small numbers.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use sandur_memory::Reservation;
use sandur_query::Error;

use crate::matrix::{Labels, sorted_labels};
use crate::names::NameId;
use crate::pipeline::Pipeline;
use crate::row::{ERROR_DETAILS_ID, ERROR_ID, Place, Row, RunLabels};

/// The labels that distinguish groups.
pub enum KeepIds {
    /// All labels.
    All,
    /// These, sorted by name.
    By(Vec<NameId>),
    /// All labels except these.
    Without(Vec<NameId>),
}

/// The groups of a worker, keyed by the numbers of label names and their values.
#[derive(Default)]
pub struct Groups {
    keys: HashMap<Box<[u8]>, u32, FixedState>,
    /// The labels of each group.
    pub labels: Vec<Labels>,
    key: Vec<u8>,
    pairs: Vec<(NameId, u32, u32)>,
    text: Vec<u8>,
    leaves_out_empty: bool,
}

/// What determines the group of a row within a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GroupSource {
    /// Nothing: all rows of the run are in one group.
    Run,
    /// The detected level alone.
    Level,
    /// More than the level.
    Row,
}

impl KeepIds {
    /// What determines the group of a row within a run. Parsers cannot replace labels of the stream.
    pub fn group_source(&self, base: &RunLabels<'_>, pipeline: &Pipeline) -> GroupSource {
        let Self::By(names) = self else { return GroupSource::Row };
        let changing = || pipeline.stages.iter().map(|s| s.effect()).filter(|e| e.changes_labels);
        if changing().any(|effect| !effect.only_extracts) {
            return GroupSource::Row;
        }
        let parses = changing().next().is_some();
        let mut source = GroupSource::Run;
        for name in names {
            match base.place_of(*name) {
                Place::Stream => {}
                Place::Nowhere if !parses && !matches!(*name, ERROR_ID | ERROR_DETAILS_ID) => {}
                Place::Level if !parses => source = GroupSource::Level,
                _ => return GroupSource::Row,
            }
        }
        source
    }
}

impl Groups {
    /// No groups yet. With `leaves_out_empty`, labels with an empty value are left out.
    pub fn new(leaves_out_empty: bool) -> Self {
        Self { leaves_out_empty, ..Self::default() }
    }

    /// The number of the row's group, which is created if it is new.
    pub fn find(&mut self, row: &Row<'_>, keep: &KeepIds, memory: &mut Reservation) -> Result<u32, Error> {
        self.pairs.clear();
        self.text.clear();
        let (pairs, text) = (&mut self.pairs, &mut self.text);
        let leaves_out_empty = self.leaves_out_empty && !matches!(keep, KeepIds::By(_));
        let mut push = |name: NameId, value: &str| {
            if value.is_empty() && leaves_out_empty {
                return;
            }
            pairs.push((name, text.len() as u32, value.len() as u32));
            text.extend_from_slice(value.as_bytes());
        };
        match keep {
            KeepIds::By(names) => {
                for &name in names {
                    let value = match name {
                        ERROR_ID | ERROR_DETAILS_ID => Some(row.value(name)).filter(|v| !v.is_empty()),
                        _ => row.get(name),
                    };
                    if let Some(value) = value {
                        push(name, value);
                    }
                }
            }
            KeepIds::All => row.for_each_label(|_, name, value| push(name, value)),
            KeepIds::Without(names) => row.for_each_label(|_, name, value| {
                if !names.contains(&name) {
                    push(name, value);
                }
            }),
        }
        if !matches!(keep, KeepIds::By(_)) {
            self.pairs.sort_unstable_by_key(|(name, ..)| *name);
        }
        self.key.clear();
        for &(name, start, len) in &self.pairs {
            self.key.extend_from_slice(&name.to_le_bytes());
            self.key.extend_from_slice(&len.to_le_bytes());
            self.key.extend_from_slice(&self.text[start as usize..(start + len) as usize]);
        }
        if let Some(&group) = self.keys.get(self.key.as_slice()) {
            return Ok(group);
        }
        self.add(row, memory)
    }

    #[cold]
    fn add(&mut self, row: &Row<'_>, memory: &mut Reservation) -> Result<u32, Error> {
        memory.grow((self.key.len() + self.text.len() + 128 + self.pairs.len() * 64) as u64)?;
        let names = &row.scratch.names;
        let pairs = self.pairs.iter().map(|&(name, start, len)| {
            let value = String::from_utf8_lossy(&self.text[start as usize..(start + len) as usize]);
            (Arc::clone(names.name(name)), Arc::from(&*value))
        });
        let labels = sorted_labels(pairs.collect());
        let group = self.labels.len() as u32;
        self.labels.push(labels);
        self.keys.insert(self.key.as_slice().into(), group);
        Ok(group)
    }
}

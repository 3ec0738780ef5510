//! The groups of a range aggregation with the rows that they have accumulated: of one worker, of all workers,
//! or of a part of the streams that another process has read.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use sandur_memory::Reservation;
use sandur_memory::job::spend;
use sandur_protobuf::Writer as _;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _, malformed};

use crate::matrix::{Labels, sorted_labels};
use crate::range::slots::Accumulation;

/// The work of combining a group, without its values.
pub const GROUP_UNITS: usize = 500;

/// The groups of an aggregation, of all series or of a part of them.
pub struct RangeGroups {
    /// The labels of each group.
    pub labels: Vec<Labels>,
    places: HashMap<Labels, u32, FixedState>,
    /// The accumulated rows of each group.
    pub values: Box<dyn Accumulation>,
    /// The reservation for labels and rows.
    pub memory: Reservation,
}

impl RangeGroups {
    /// The groups with these distinct labels; `memory` pays for labels and values.
    pub fn new(labels: Vec<Labels>, values: Box<dyn Accumulation>, memory: Reservation) -> Self {
        let places = labels.iter().cloned().zip(0u32..).collect();
        Self { labels, places, values, memory }
    }

    /// The number of the group with these labels, which is created if it is new.
    fn place(&mut self, labels: &Labels) -> u32 {
        let next = self.labels.len() as u32;
        let place = *self.places.entry(Labels::clone(labels)).or_insert(next);
        if place == next {
            self.labels.push(Labels::clone(labels));
        }
        place
    }

    /// Adds other groups of the same aggregation, which has this number of time slots.
    pub fn merge(&mut self, labels: &[Labels], values: &dyn Accumulation, slots: usize) -> Result<(), Error> {
        self.memory.grow(labels.iter().map(group_bytes).sum())?;
        for (from, labels) in (0u32..).zip(labels) {
            spend(GROUP_UNITS + slots)?;
            let group = self.place(labels);
            self.values.merge(&mut self.memory, group, values, from)?;
        }
        Ok(())
    }

    /// Adds the groups of another part.
    pub fn add(&mut self, other: &Self, slots: usize) -> Result<(), Error> {
        self.merge(&other.labels, &*other.values, slots)
    }

    /// Writes the groups for another process, each as a field.
    pub fn write(&self, field: u32, out: &mut Vec<u8>) {
        for (group, labels) in (0u32..).zip(&self.labels) {
            out.message(field, |out| {
                out.put_pairs(labels.iter().map(|(name, value)| (&**name, &**value)));
                out.message(3, |out| self.values.write(group, out));
            });
        }
    }

    /// Reads a group that [`Self::write`] wrote.
    pub fn read(&mut self, fields: &mut Fields<'_>) -> Result<(), Error> {
        let (mut pairs, mut name, mut is_read) = (Vec::new(), None::<Arc<str>>, false);
        while let Some(field) = fields.field()? {
            match (field, name.take()) {
                (1, None) => name = Some(fields.text()?.into()),
                (2, Some(name)) => pairs.push((name, Arc::from(fields.text()?))),
                (3, None) if !is_read => {
                    let labels = sorted_labels(std::mem::take(&mut pairs));
                    self.memory.grow(group_bytes(&labels))?;
                    if self.places.contains_key(&labels) {
                        return Err(malformed("a group exists twice"));
                    }
                    let place = self.place(&labels);
                    self.values.read(&mut self.memory, place, &mut fields.message()?)?;
                    is_read = true;
                }
                (1..=3, _) => return Err(malformed("a group has other fields")),
                _ => fields.skip()?,
            }
        }
        if is_read { Ok(()) } else { Err(malformed("a group has no values")) }
    }
}

/// The bytes of a group without its values.
fn group_bytes(labels: &Labels) -> u64 {
    labels.iter().map(|(name, value)| (name.len() + value.len()) as u64 + 64).sum::<u64>() + 128
}

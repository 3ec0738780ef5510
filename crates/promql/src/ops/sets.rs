//! `and`, `or`, `unless`: series of one vector by whether the other has a matching series.

use std::collections::VecDeque;

use foldhash::HashMap;
use sandur_memory::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::labels::LabelsId;
use crate::notes::Notes;
use crate::ops::binary::{Signature, same_labels};
use crate::ops::chain::{LeftSide, Made, RightSide, Stage, Step};
use crate::run::{Pull, Run};

/// For each signature, the steps at which a series has it.
#[derive(Default)]
pub struct Seen(HashMap<LabelsId, Vec<u64>>);

impl Seen {
    /// Records the steps at which these series have samples.
    fn add(&mut self, columns: &[Column], signature: &Signature, run: &mut Run) -> Result<(), Error> {
        for column in columns {
            spend(column.present.len() + 8)?;
            let labels = signature.of(column.labels, &mut run.pool);
            if !self.0.contains_key(&labels) {
                run.keep((column.present.len() * 8 + 64) as u64)?;
            }
            let words = self.0.entry(labels).or_insert_with(|| vec![0; column.present.len()]);
            words.iter_mut().zip(&column.present).for_each(|(word, bits)| *word |= bits);
        }
        Ok(())
    }

    /// Keeps the samples of series at the steps at which a matching series was seen, or was not.
    fn mask(
        &self,
        columns: Vec<Column>,
        like: bool,
        signature: &Signature,
        run: &mut Run,
    ) -> Result<Vec<Column>, Error> {
        let mut kept = Vec::with_capacity(columns.len());
        for mut column in columns {
            spend(column.present.len() + 8)?;
            let labels = signature.of(column.labels, &mut run.pool);
            match self.0.get(&labels) {
                Some(words) => {
                    let pairs = column.present.iter_mut().zip(words);
                    pairs.for_each(|(bits, word)| *bits &= if like { *word } else { !*word });
                }
                None if like => continue,
                None => {}
            }
            if column.has_any() {
                kept.push(column);
            }
        }
        Ok(kept)
    }
}

/// `and` and `unless`. The left side may be large, so it is processed batch by batch.
pub struct Masked {
    /// The right side.
    pub right: RightSide,
    /// Whether series with a match are kept (`and`), not those without (`unless`).
    pub like: bool,
    /// The labels on which series match.
    pub signature: Signature,
    /// The signatures of the right side, once it is read.
    pub seen: Option<Seen>,
    /// The notes of the right side. It is evaluated first, but its notes come after those of the left side.
    pub notes: Notes,
}

impl Stage for Masked {
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error> {
        std::mem::swap(&mut run.notes, &mut self.notes);
        let needed = self.right.ready(run);
        std::mem::swap(&mut run.notes, &mut self.notes);
        if let Some(leaf) = needed? {
            return Ok(Step::Give(Pull::Need(leaf)));
        }
        let seen = match &mut self.seen {
            Some(seen) => seen,
            none => {
                let (right, bytes) = self.right.take();
                let seen = none.insert(Seen::default());
                seen.add(&right, &self.signature, run)?;
                drop(right);
                run.release(bytes);
                seen
            }
        };
        Ok(match came {
            Some(Pull::Batch(columns)) => {
                Step::Give(Pull::Batch(seen.mask(columns, self.like, &self.signature, run)?))
            }
            Some(other) => {
                run.notes.append(std::mem::take(&mut self.notes));
                Step::Give(other)
            }
            None => Step::Left,
        })
    }
}

/// `or` of any number of operands with the same matching: the series of each operand that match none of the
/// operands before it.
pub struct Union {
    /// The operands that are not read yet.
    pub rights: VecDeque<RightSide>,
    left: LeftSide,
    signature: Signature,
    grid: Grid,
    /// The series of the operands that are read, once the first one is.
    all: Option<All>,
    made: Option<Made>,
}

impl Union {
    /// The union of the left side and a right side.
    pub fn new(right: RightSide, signature: Signature, grid: Grid) -> Self {
        let (left, rights) = (LeftSide::default(), VecDeque::from([right]));
        Self { rights, left, signature, grid, all: None, made: None }
    }
}

impl Stage for Union {
    fn step(&mut self, came: Option<Pull>, run: &mut Run) -> Result<Step, Error> {
        if let Some(made) = &mut self.made {
            return Ok(Step::Give(made.next(run)));
        }
        let all = match &mut self.all {
            Some(all) => all,
            None if !self.left.take_in(came, run)? => return Ok(Step::Left),
            none => none.insert(All::default()).with_first(self.left.take(), &self.signature, run)?,
        };
        while let Some(right) = self.rights.front_mut() {
            if let Some(leaf) = right.ready(run)? {
                return Ok(Step::Give(Pull::Need(leaf)));
            }
            all.add(right.take(), &self.signature, &self.grid, run)?;
            self.rights.pop_front();
        }
        let All { columns, bytes, .. } = std::mem::take(all);
        let before = run.held_bytes();
        let made = Made::new(columns, bytes, before, run)?;
        Ok(Step::Give(self.made.insert(made).next(run)))
    }
}

/// The united series of several operands.
#[derive(Default)]
struct All {
    columns: Vec<Column>,
    places: HashMap<LabelsId, usize>,
    seen: Seen,
    /// The bytes that the run holds for all of these.
    bytes: u64,
}

/// The bytes of the place of a series.
const PLACE_BYTES: u64 = 64;

impl All {
    fn with_first(
        &mut self,
        (columns, bytes): (Vec<Column>, u64),
        signature: &Signature,
        run: &mut Run,
    ) -> Result<&mut Self, Error> {
        let before = run.held_bytes();
        run.keep(columns.len() as u64 * PLACE_BYTES)?;
        self.seen.add(&columns, signature, run)?;
        columns.iter().enumerate().for_each(|(n, column)| _ = self.places.insert(column.labels, n));
        self.columns = columns;
        self.bytes = bytes + run.held_bytes() - before;
        Ok(self)
    }

    /// Adds the series of an operand that match none so far.
    fn add(
        &mut self,
        (columns, bytes): (Vec<Column>, u64),
        signature: &Signature,
        grid: &Grid,
        run: &mut Run,
    ) -> Result<(), Error> {
        let before = run.held_bytes();
        let columns = self.seen.mask(columns, false, signature, run)?;
        self.seen.add(&columns, signature, run)?;
        run.keep(columns.len() as u64 * PLACE_BYTES)?;
        let mut stayed = 0;
        for column in columns {
            spend(grid.steps + 8)?;
            match self.places.get(&column.labels) {
                // At one step, series with equal labels match, so at most one is kept. Over several steps
                // they are one series.
                Some(place) if grid.steps > 1 => {
                    let kept = &mut self.columns[*place];
                    // As in Prometheus, the first sample decides whether the name is dropped.
                    if column.first_step() < kept.first_step() {
                        kept.drop_name = column.drop_name;
                    }
                    for step in column.steps() {
                        if kept.has(step) {
                            return Err(same_labels());
                        }
                        if let Some(sample) = column.sample(step) {
                            run.put(kept, step, sample)?;
                        }
                    }
                }
                _ => {
                    self.places.insert(column.labels, self.columns.len());
                    stayed += column.memory_bytes();
                    self.columns.push(column);
                }
            }
        }
        self.bytes += stayed + run.held_bytes() - before;
        run.release(bytes.saturating_sub(stayed));
        Ok(())
    }
}

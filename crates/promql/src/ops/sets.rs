//! `and`, `or`, `unless`: series of one vector by whether the other has the like.

use std::collections::VecDeque;

use foldhash::HashMap;
use sandur_base::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::labels::LabelsId;
use crate::notes::Notes;
use crate::ops::binary::{Signature, same_labels};
use crate::ops::chain::{LeftSide, Made, RightSide, Stage, Step};
use crate::run::{Pull, Run};

/// Steps at which a signature has a series.
#[derive(Default)]
pub struct Seen(HashMap<LabelsId, Vec<u64>>);

impl Seen {
    /// Notes where these have samples.
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

    /// Series at the steps at which the like was seen, or was not.
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

/// `and` and `unless`: of the left side, which may be large, a batch at a time is looked at.
pub struct Masked {
    /// The right side.
    pub right: RightSide,
    /// Whether what has its like stays, rather than what has not.
    pub like: bool,
    /// By which labels series are alike.
    pub signature: Signature,
    /// Where the right side has series, once that is known.
    pub seen: Option<Seen>,
    /// What the right side noted. It is evaluated first, and said behind what the left side notes.
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

/// `or`, of any number of operands that find their like by the same labels: what of each has none in those
/// before it.
pub struct Union {
    /// Operands that were not looked at yet.
    pub rights: VecDeque<RightSide>,
    left: LeftSide,
    signature: Signature,
    grid: Grid,
    /// Series of the operands that were looked at, once the first was.
    all: Option<All>,
    made: Option<Made>,
}

impl Union {
    /// Of what comes and a right side.
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

/// Series of several operands.
#[derive(Default)]
struct All {
    columns: Vec<Column>,
    places: HashMap<LabelsId, usize>,
    seen: Seen,
    /// Bytes that the run holds for all of that.
    bytes: u64,
}

/// Bytes that the place of a series takes.
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

    /// Adds what of an operand has no like yet.
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
                // At one step two series of one label set are alike; over steps they are one series.
                Some(place) if grid.steps > 1 => {
                    let kept = &mut self.columns[*place];
                    // Whether the name goes is that of the first sample, as Prometheus has it.
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

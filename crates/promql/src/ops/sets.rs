//! `and`, `or`, `unless`: series of one vector by whether the other has the like.

use foldhash::{HashMap, HashMapExt};
use sandur_base::job::spend;
use sandur_query::Error;

use crate::column::{Column, Grid};
use crate::labels::LabelsId;
use crate::ops::binary::{Signature, same_labels};
use crate::run::{AnyOperator, Gathered, Operator, Outbox, Pull, Run};
use crate::token::Kind;

/// An operator on sets.
pub struct Sets {
    /// Left and right.
    pub inner: [AnyOperator; 2],
    /// What came of them.
    pub gathered: [Gathered; 2],
    /// The operator.
    pub op: Kind,
    /// By which labels series are alike.
    pub signature: Signature,
    /// The steps.
    pub grid: Grid,
    /// Where the right side has series, once that is known.
    pub seen: Option<Seen>,
    /// What is answered.
    pub outbox: Option<Outbox>,
}

/// Steps at which a signature has a series.
pub type Seen = HashMap<LabelsId, Vec<u64>>;

impl Operator for Sets {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        if let Some(outbox) = &mut self.outbox {
            return Ok(outbox.next());
        }
        // `and` and `unless` keep only what they answer; the left side may be large.
        let order: &[usize] = if self.op == Kind::Or { &[0, 1] } else { &[1] };
        for n in order {
            if let Some(leaf) = self.gathered[*n].gather(&mut self.inner[*n], run)? {
                return Ok(Pull::Need(leaf));
            }
        }
        if self.op == Kind::Or {
            let columns = self.union(run)?;
            return Ok(self.outbox.insert(Outbox::new(columns)).next());
        }
        let columns = match self.inner[0].pull(run)? {
            Pull::Batch(columns) => columns,
            other => return Ok(other),
        };
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => {
                let right = std::mem::take(&mut self.gathered[1].columns);
                self.seen(&right, run)?
            }
        };
        let kept = self.masked(columns, &seen, self.op == Kind::And, run)?;
        self.seen = Some(seen);
        Ok(Pull::Batch(kept))
    }
}

impl Sets {
    fn seen(&self, columns: &[Column], run: &mut Run) -> Result<Seen, Error> {
        spend(columns.len() * (self.grid.steps / 64 + 8))?;
        let mut seen: Seen = HashMap::new();
        for column in columns {
            let labels = self.signature.of(column.labels, &mut run.pool);
            if !seen.contains_key(&labels) {
                run.keep((column.present.len() * 8 + 64) as u64)?;
            }
            let words = seen.entry(labels).or_insert_with(|| vec![0; column.present.len()]);
            words.iter_mut().zip(&column.present).for_each(|(word, bits)| *word |= bits);
        }
        Ok(seen)
    }

    /// Series at the steps at which the like was seen, or was not.
    fn masked(
        &self,
        columns: Vec<Column>,
        seen: &Seen,
        like: bool,
        run: &mut Run,
    ) -> Result<Vec<Column>, Error> {
        spend(columns.len() * (self.grid.steps / 64 + 8))?;
        let mut kept = Vec::with_capacity(columns.len());
        for mut column in columns {
            let labels = self.signature.of(column.labels, &mut run.pool);
            match seen.get(&labels) {
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

    fn union(&mut self, run: &mut Run) -> Result<Vec<Column>, Error> {
        let [mut all, right] = [0, 1].map(|n| std::mem::take(&mut self.gathered[n].columns));
        let seen = self.seen(&all, run)?;
        let right = self.masked(right, &seen, false, run)?;
        run.keep((all.len() + right.len()) as u64 * 64)?;
        // At one step two series of one label set are alike; over steps they are one series.
        let mut places: HashMap<LabelsId, usize> = HashMap::new();
        all.iter().enumerate().for_each(|(n, column)| _ = places.insert(column.labels, n));
        for column in right {
            spend(self.grid.steps + 8)?;
            match places.get(&column.labels) {
                Some(place) if self.grid.steps > 1 => {
                    let kept = &mut all[*place];
                    for step in column.steps() {
                        if kept.has(step) {
                            return Err(same_labels());
                        }
                        if let Some(sample) = column.sample(step) {
                            run.put(kept, step, sample)?;
                        }
                    }
                }
                _ => all.push(column),
            }
        }
        Ok(all)
    }
}

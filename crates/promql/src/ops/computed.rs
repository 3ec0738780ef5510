//! Moves the series of jobs into the query, with their labels and notes.

use sandur_memory::job::JobMemory;
use sandur_query::Error;

use crate::labels::Adopted;
use crate::run::{Computed, LeafId, Operator, Pull, Run};

/// Yields the results of a selector's jobs, in the order of the series.
pub struct FromJobs {
    leaf: LeafId,
    /// The reservation for the batch that was output last.
    held: JobMemory,
}

impl FromJobs {
    /// Yields the results of this selector's jobs.
    pub fn new(leaf: LeafId) -> Self {
        Self { leaf, held: JobMemory::default() }
    }
}

impl Operator for FromJobs {
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error> {
        loop {
            let computed = match run.next_computed(self.leaf) {
                Ok(Some(computed)) => computed,
                Ok(None) => {
                    self.held = JobMemory::default();
                    return Ok(Pull::End);
                }
                Err(leaf) => return Ok(Pull::Need(leaf)),
            };
            let Computed { mut columns, pool, notes, samples_read, held } = computed;
            self.held = held;
            run.count_samples(samples_read)?;
            let mut adopted = Adopted::of(&pool)?;
            for column in &mut columns {
                column.labels = run.pool.adopt(&pool, column.labels, &mut adopted);
            }
            run.notes.append(notes.with_texts(|text| run.pool.adopt_text(&pool, text, &mut adopted)));
            run.pool.check()?;
            if !columns.is_empty() {
                return Ok(Pull::Batch(columns));
            }
        }
    }
}

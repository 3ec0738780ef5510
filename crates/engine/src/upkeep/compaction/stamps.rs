//! Decides whether the rows of a merged block keep their stamps.
//!
//! They lose them when the place of the block determines their order as well: every other row that is or
//! can come into the same times was written later, or is in a block with an earlier place. Queries order
//! rows without a stamp by their blocks, before all rows that have one, so no answer changes.
//!
//! **Why this stays true until the commit.** New blocks have rows of heads, whose stamps are later than their
//! writers have stated. A process that registers meanwhile gives later stamps than it reads in the catalog.
//! Another merge that removes stamps at the same time would need stamps that precede those of our inputs,
//! which it sees, while ours must precede those of its inputs. Clocks are not compared.

use std::sync::Arc;

use sandur_catalog::Snapshot;
use sandur_model::TimeRange;

use crate::blocks::merging::Merging;
use crate::error::Error;
use crate::upkeep::compaction::compactor::{Compactor, Work};

/// With more other blocks of the same times, stamps stay: reading their footers would cost more.
const OTHERS_MAX: usize = 64;

impl Compactor {
    /// Whether the rows of a merge of these blocks keep their stamps.
    pub(crate) async fn keeps_stamps<M: Merging>(
        &self,
        work: &Work<'_>,
        inputs: &[Arc<M::Block>],
        newest: &Snapshot,
    ) -> Result<bool, Error> {
        let spans = inputs.iter().filter_map(|input| M::stamps(input));
        let Some(span) = spans.reduce(|one, other| one.joined(other)) else { return Ok(false) };
        if !newest.all_stamps_are_after(span.last) {
            return Ok(true);
        }
        let (mut metas, mut range) = (Vec::new(), TimeRange::new(i64::MAX, i64::MIN));
        for id in &work.merge.inputs {
            let meta = work.meta(*id)?;
            range =
                TimeRange::new(range.start.min(meta.min_ts), range.end.max(meta.max_ts.saturating_add(1)));
            metas.push(meta);
        }
        let Some(last) = metas.iter().max_by_key(|meta| meta.order_of_writing()) else { return Ok(true) };
        let others = newest.blocks(&last.dataset, range);
        let others: Vec<_> = others.filter(|other| !work.merge.inputs.contains(&other.id)).collect();
        if others.len() > OTHERS_MAX {
            return Ok(true);
        }
        for other in others {
            // A block that cannot be read now keeps the stamps of the others.
            let Ok(block) = M::open(&self.reader, other).await else { return Ok(true) };
            let has_its_place = match M::stamps(&block) {
                Some(of_other) => of_other.first > span.last,
                None => other.order_of_writing() < last.order_of_writing(),
            };
            if !has_its_place {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! Whether delete requests hide exemplars of a block that is merged. Exemplars must be read for that,
//! since no index lists them.

use std::sync::Arc;

use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_memory::MemoryBudget;
use sandur_query::QueryStats;
use sandur_runtime::Lane;

use super::OpenSamples;
use super::hidden::{HidingExemplars, hides};
use crate::blocks::reader::BlockReader;
use crate::error::{Error, ReadError};

/// Whether requests hide exemplars of a block. Reads one page at a time.
pub(super) async fn are_some_hidden(
    reader: &BlockReader,
    block: &OpenSamples,
    hiding: &Arc<HidingExemplars>,
    budget: &MemoryBudget,
) -> Result<bool, Error> {
    for page in block.footer.exemplars().iter().filter(|page| hiding.may_concern(page)) {
        let _memory = budget.reserve(page.memory_bytes())?;
        let (hint, stats) = (Hint::Scan { bytes: u64::from(page.piece().len) }, QueryStats::default());
        let stored = reader.pieces(&block.meta, &[page.piece()], hint, &stats).await?;
        let (page, hiding) = (page.clone(), Arc::clone(hiding));
        let look = move || -> Result<bool, FormatError> {
            for stored in stored {
                for of in page.decode(&stored.bytes)? {
                    let times = hiding.times_of(&of.labels);
                    if of.exemplars.iter().any(|one| hides(&times, one.timestamp)) {
                        return Ok(true);
                    }
                }
            }
            Ok(false)
        };
        let looked = reader.env.run_cpu(Lane::Background, look).await;
        if looked.map_err(|reason| ReadError::damaged(&block.meta, reason))? {
            return Ok(true);
        }
    }
    Ok(false)
}

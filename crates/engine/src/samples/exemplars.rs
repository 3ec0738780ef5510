//! Reads the exemplars of a query from heads and blocks.
//!
//! Found exemplars are held until all are known, because a series may have some in each block. Each is
//! reserved, and a page of a block is freed before the next ones are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_base::{Lane, MemoryBudget, Reservation};
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::sample_block::{ExemplarPage, Footer, SeriesExemplars as Stored};
use sandur_model::{Exemplar, Labels, MILLISECOND_NS};
use sandur_query::{Error, Exemplars, Part, QueryContext, QueryStats, SeriesExemplars, SeriesRequest};

use super::OpenSamples;
use super::beside::each_item;
use super::hidden::{HidingExemplars, hides};
use crate::block_reader::{BlockReader, ReadError, or_warn};
use crate::error::Error as EngineError;
use crate::rules::Rules;
use crate::series_reader::{OPEN_AT_ONCE, SeriesReader};
use crate::view::View;

/// Exemplars by series, with the reservation of their memory.
struct Found {
    part: Part,
    series: BTreeMap<Labels, Vec<Exemplar>>,
    memory: Reservation,
}

impl Found {
    fn add(&mut self, wanted: &SeriesRequest, of: Stored) -> Result<(), Error> {
        let Stored { labels, mut exemplars } = of;
        exemplars.retain(|one| wanted.range.contains(one.timestamp.saturating_mul(MILLISECOND_NS)));
        if exemplars.is_empty() || !wanted.matches(&labels) || !self.part.has_labels(&labels) {
            return Ok(());
        }
        let of = Stored { labels, exemplars };
        self.memory.grow(of.memory_bytes())?;
        self.series.entry(of.labels).or_default().extend(of.exemplars);
        Ok(())
    }
}

/// Reads the selected exemplars that are not hidden.
pub(super) async fn read_exemplars(
    reader: &BlockReader,
    view: &View,
    rules: &Rules,
    context: &QueryContext,
    wanted: SeriesRequest,
) -> Result<Exemplars, Error> {
    let (memory, tenant) = (context.budget().reserve(0)?, context.tenant().clone());
    let mut found = Found { part: context.part(), series: BTreeMap::new(), memory };
    for head in &view.heads {
        context.check()?;
        let all = head.samples().exemplars(&tenant, &wanted, &mut found.memory)?;
        let in_part = all.into_iter().filter(|of| found.part.has_labels(&of.labels));
        in_part.for_each(|of| found.series.entry(of.labels).or_default().extend(of.exemplars));
    }
    for some in SeriesReader::<Footer>::blocks(view, context, wanted.range).chunks(OPEN_AT_ONCE) {
        context.check()?;
        for block in reader.open_all::<Footer>(some, context.stats()).await {
            let Some(block) = or_warn(context, block)? else { continue };
            let pages = block
                .footer
                .exemplars()
                .iter()
                .filter(|page| wanted.any_of.iter().any(|list| page.may_hold(list, wanted.range)));
            let pages: Vec<ExemplarPage> = pages.cloned().collect();
            each_item(reader, context, &block, pages, |of| found.add(&wanted, of)).await?;
        }
    }
    let Found { mut series, memory, .. } = found;
    for rule in rules.between(wanted.range.start, wanted.range.end) {
        let (naming, hidden) = (rule.naming().await?, [rule.range.milliseconds()]);
        let named = series.iter_mut().filter(|(labels, _)| naming.names_series(labels));
        named.for_each(|(_, exemplars)| exemplars.retain(|one| !hides(&hidden, one.timestamp)));
    }
    let sorted = |(labels, mut exemplars): (Labels, Vec<Exemplar>)| {
        Exemplar::sort(&mut exemplars);
        SeriesExemplars { labels: Arc::new(labels), exemplars }
    };
    let visible = series.into_iter().filter(|(_, exemplars)| !exemplars.is_empty());
    Ok(Exemplars { series: visible.map(sorted).collect(), held: Some(memory) })
}

/// Whether requests hide exemplars of a block. Reads one page at a time.
pub(super) async fn are_some_hidden(
    reader: &BlockReader,
    block: &OpenSamples,
    hiding: &Arc<HidingExemplars>,
    budget: &MemoryBudget,
) -> Result<bool, EngineError> {
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

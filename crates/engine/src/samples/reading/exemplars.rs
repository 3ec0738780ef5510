//! Reads the exemplars of a query from heads and blocks.
//!
//! Found exemplars are held until all are known, because a series may have some in each block. Each is
//! reserved, and a page of a block is freed before the next ones are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_format::sample_block::{ExemplarPage, Footer, SeriesExemplars as Stored};
use sandur_memory::Reservation;
use sandur_model::{Exemplar, Labels, MILLISECOND_NS};
use sandur_query::{Error, Exemplars, Part, QueryContext, SeriesExemplars, SeriesRequest};

use super::annotations::each_item;
use crate::blocks::reader::BlockReader;
use crate::error::or_warn;
use crate::reading::series_reader::{OPEN_AT_ONCE, SeriesReader};
use crate::rules::Rules;
use crate::samples::hidden::hides;
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

//! The exemplars of a head for queries, and for flushes in the order of blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::SeriesExemplars;
use sandur_memory::{OverBudget, Reservation};
use sandur_model::{Exemplar, MILLISECOND_NS, TenantId};
use sandur_query::SeriesRequest;

use super::SampleHead;
use super::annotations::HeadExemplar;
use super::table::Snapshot;
use super::tenant::TenantSamples;

/// Exemplars of a tenant in a sealed head, by series.
#[derive(Default)]
pub struct FlushedExemplars {
    tenant: Option<Arc<TenantSamples>>,
    snapshot: Snapshot,
    /// Number of the series and position among all exemplars, in the order of series.
    places: Vec<(u32, u32)>,
    /// Numbers of the time slots with exemplars.
    times_ms: BTreeSet<i64>,
}

impl SampleHead {
    /// Returns the exemplars in the time range of the selected series, in no order, with repetitions. Their
    /// memory is reserved first.
    pub fn exemplars(
        &self,
        tenant: &TenantId,
        wanted: &SeriesRequest,
        memory: &mut Reservation,
    ) -> Result<Vec<SeriesExemplars>, OverBudget> {
        let Some(tenant) = self.tenant(tenant) else { return Ok(Vec::new()) };
        let (annotations, snapshot) = (tenant.annotations(), tenant.snapshot());
        // For each series its position in the result, or that it is not selected.
        let mut places: BTreeMap<u32, Option<usize>> = BTreeMap::new();
        let mut found: Vec<SeriesExemplars> = Vec::new();
        for HeadExemplar { series, exemplar, .. } in annotations.exemplars() {
            if !wanted.range.contains(exemplar.timestamp.saturating_mul(MILLISECOND_NS)) {
                continue;
            }
            let place = match places.get(series) {
                Some(place) => *place,
                None => {
                    let labels = snapshot.labels(*series);
                    let is_wanted = wanted.matches(&labels);
                    let place = is_wanted.then_some(found.len());
                    if is_wanted {
                        let of = SeriesExemplars { labels, exemplars: Vec::new() };
                        memory.grow(of.memory_bytes())?;
                        found.push(of);
                    }
                    places.insert(*series, place);
                    place
                }
            };
            if let Some(place) = place {
                memory.grow(size_of::<Exemplar>() as u64 + exemplar.held_bytes())?;
                found[place].exemplars.push(exemplar.clone());
            }
        }
        Ok(found)
    }

    /// Returns all exemplars of a tenant for a flush. `slot_ms` is the length of a time slot.
    pub(crate) fn flushed_exemplars(&self, tenant: &TenantId, slot_ms: i64) -> FlushedExemplars {
        let Some(tenant) = self.tenant(tenant) else { return FlushedExemplars::default() };
        let (annotations, snapshot) = (tenant.annotations(), tenant.snapshot());
        let numbers: RoaringBitmap = annotations.exemplars().map(|one| one.series).collect();
        let sorted = tenant.sorted(&snapshot, &numbers);
        let ranks: BTreeMap<u32, u32> = sorted.iter().copied().zip(0..).collect();
        let mut places: Vec<(u32, u32)> = annotations.exemplars().map(|one| one.series).zip(0..).collect();
        places.sort_by_key(|(series, _)| ranks.get(series).copied());
        let times_ms =
            annotations.exemplars().map(|one| one.exemplar.timestamp.div_euclid(slot_ms)).collect();
        drop(annotations);
        FlushedExemplars { tenant: Some(tenant), snapshot, places, times_ms }
    }
}

impl FlushedExemplars {
    /// The numbers of the time slots with exemplars.
    pub(crate) fn slots(&self) -> &BTreeSet<i64> {
        &self.times_ms
    }

    /// Returns the exemplars, between these milliseconds, of the series whose first exemplar is at `at`,
    /// and advances `at` to the next series. `None` after the last one.
    pub(crate) fn next(&self, at: &mut usize, times_ms: (i64, i64)) -> Option<SeriesExemplars> {
        let rest = self.places.get(*at..)?;
        let (series, _) = rest.first()?;
        let own = &rest[..rest.iter().take_while(|(of, _)| of == series).count()];
        *at += own.len();
        let annotations = self.tenant.as_ref()?.annotations();
        let all = own.iter().filter_map(|(_, position)| annotations.exemplar(*position as usize));
        let within = all.filter(|one| (times_ms.0..=times_ms.1).contains(&one.timestamp));
        Some(SeriesExemplars { labels: self.snapshot.labels(*series), exemplars: within.cloned().collect() })
    }
}

//! Stores the series of a script in one of several places: in memory, or in a real engine.
//!
//! Each section of a script (from one `clear` to the next) has its own tenant, so one engine serves a
//! complete script. A load stores only the samples that Prometheus's storage would accept.

use std::sync::Arc;

use sandur_model::{Dataset, HOUR_NS, HistogramSample, Labels, SampleBatch, TenantId};
use sandur_query::{MemorySeries, SampleSource};

use super::load;
use super::script::Load;
use super::store::{Accepted, Added};
use crate::world::{OpenedEngine, Place, section};

/// The clock begins in the year 2170 and samples in 1970, so every time window of the samples is over.
const START_NS: i64 = 200 * 365 * 24 * HOUR_NS;

/// The series of a script in one place.
pub struct Stored {
    memory: Arc<MemorySeries>,
    engine: Option<OpenedEngine>,
    place: Place,
    tenant: u32,
    /// The loads of the section, when they are pushed together by [`settle`](Stored::settle).
    loads: Vec<Accepted>,
    is_settled: bool,
}

impl Stored {
    /// Opens an empty place.
    pub async fn open(place: Place) -> Result<Self, String> {
        let engine = match place {
            Place::Memory => None,
            _ => Some(OpenedEngine::open(START_NS).await?),
        };
        Ok(Self { memory: Arc::default(), engine, place, tenant: 0, loads: Vec::new(), is_settled: true })
    }

    /// Removes all series.
    pub fn clear(&mut self) {
        self.tenant += 1;
        self.loads.clear();
        self.is_settled = true;
        self.memory = Arc::default();
    }

    /// Adds the samples of a load command.
    pub async fn load(&mut self, load: &Load) -> Result<(), String> {
        let memory = Arc::get_mut(&mut self.memory).ok_or("a query still reads the series")?;
        let accepted = load::load(memory, load)?;
        let Some(engine) = &self.engine else { return Ok(()) };
        let tenant = section(self.tenant)?;
        match self.place {
            Place::Memory => {}
            Place::Head => engine.push(batch(&tenant, &accepted, |_, _| true)).await?,
            Place::Flushed => {
                for half in 0..2 {
                    let is_in = |n, samples| (n >= samples / 2) == (half == 1);
                    engine.push(batch(&tenant, &accepted, is_in)).await?;
                    engine.flush().await?;
                }
            }
            Place::Compacted => {
                self.loads.push(accepted);
                self.is_settled = false;
            }
        }
        Ok(())
    }

    /// Moves the series to their place: pushes each load of the section in blocks of its own and waits
    /// until the blocks are merged.
    pub async fn settle(&mut self) -> Result<(), String> {
        let Some(engine) = self.engine.as_ref().filter(|_| !self.is_settled) else { return Ok(()) };
        self.is_settled = true;
        self.tenant += 1;
        let tenant = section(self.tenant)?;
        for accepted in &self.loads {
            // The samples of the blocks interleave, and the blocks written later contain earlier
            // samples.
            for third in [2, 0, 1] {
                engine.push(batch(&tenant, accepted, |n, _| n % 3 == third)).await?;
                engine.flush().await?;
            }
        }
        engine.wait_for_merges(&Dataset::metrics(tenant)).await
    }

    /// Returns the source of the series and the tenant that owns them.
    pub fn source(&self) -> Result<(Arc<dyn SampleSource>, TenantId), String> {
        let source: Arc<dyn SampleSource> = match &self.engine {
            None => Arc::clone(&self.memory) as _,
            Some(engine) => engine.engine().sources().samples,
        };
        Ok((source, section(self.tenant)?))
    }

    /// Stops the engine, if there is one.
    pub async fn close(self) -> Result<(), String> {
        match self.engine {
            None => Ok(()),
            Some(engine) => engine.close().await,
        }
    }
}

/// Returns one push with the samples that `is_in` selects. It receives the index of a sample in its
/// series and the number of samples of the series.
fn batch(
    tenant: &TenantId,
    accepted: &[(Labels, Vec<Added>)],
    is_in: impl Fn(usize, usize) -> bool,
) -> SampleBatch {
    let mut batch = SampleBatch::new(tenant.clone());
    for (labels, samples) in accepted {
        batch.push(Arc::new(labels.clone()), []);
        for (_, sample) in samples.iter().enumerate().filter(|(n, _)| is_in(*n, samples.len())) {
            let Added { time: timestamp, start, value, histogram } = sample.clone();
            match histogram {
                None => {
                    batch.push_sample(timestamp, value);
                    batch.set_start(start);
                }
                Some(histogram) => {
                    batch.push_histogram(HistogramSample { timestamp, start, integer: false, histogram });
                }
            }
        }
    }
    batch
}

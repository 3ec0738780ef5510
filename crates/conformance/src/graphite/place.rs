//! Stores the series of Graphite's cases in one of several places: in memory as whisper does, or as
//! samples in a real engine, read by the storage rules that each series was written with.

use std::fmt::Write;
use std::sync::Arc;

use sandur_graphite::{
    Names, RulesFile, Source, StorageRules, StoredOptions, StoredSeries, canonical_name, parse_name,
};
use sandur_model::{
    Dataset, HOUR_NS, Labels, SampleBatch, TenantId, graphite_path_labels, graphite_tagged_labels,
};
use sandur_runtime::Env;
use serde_json::Value;

use super::cases::string;
use super::memory::Stored;
use crate::world::{OpenedEngine, Place, section};

/// The clock begins in the year 2170 and samples in 2012, so every time window of the samples is over.
const START_NS: i64 = 200 * 365 * 24 * HOUR_NS;

/// A series exists however old its values are, as a whisper file does. In seconds.
const LOOKBACK: i64 = 20 * 365 * 86_400;

/// Time of a sample that is older than every retention. It stands for the existence of the file.
const CREATED: i64 = 1_325_376_000;

/// The series in one place.
pub(super) enum World {
    Memory(Stored),
    Engine { opened: OpenedEngine, rules: Arc<StorageRules>, tenant: TenantId },
}

/// The series during one request.
pub(super) enum Series<'a> {
    Memory(&'a Stored),
    Engine(StoredSeries<'a>),
}

/// One series: its labels, and its samples with times in milliseconds.
type Written = (Labels, Vec<(i64, f64)>);

impl World {
    pub(super) async fn open(place: Place, text: &str) -> Result<Self, String> {
        if place == Place::Memory {
            return Ok(Self::Memory(Stored::read(text)?));
        }
        let whole: Value = serde_json::from_str(text).map_err(|error| format!("stored.json.gz: {error}"))?;
        let all = || whole["series"].as_array().into_iter().flatten();
        let written: Vec<Written> = all().map(written).collect::<Result<_, String>>()?;
        let rules = Arc::new(rules(all())?);
        let opened = OpenedEngine::open(START_NS).await?;
        let tenant = section(0)?;
        let pieces = if place == Place::Head { 1 } else { 3 };
        // The samples of the blocks interleave, and the blocks written later contain earlier samples.
        for piece in [2, 0, 1].into_iter().filter(|piece| *piece < pieces) {
            opened.push(batch(&tenant, &written, |n| n % pieces == piece)).await?;
            if place != Place::Head {
                opened.flush().await?;
            }
        }
        if place == Place::Compacted {
            opened.wait_for_merges(&Dataset::metrics(tenant.clone())).await?;
        }
        Ok(Self::Engine { opened, rules, tenant })
    }

    /// The world's clock.
    pub(super) fn env(&self) -> Env {
        match self {
            Self::Memory(_) => Env::simulated(1, 0),
            Self::Engine { opened, .. } => opened.engine().env().clone(),
        }
    }

    /// Returns the tenant that owns the series.
    pub(super) fn tenant(&self) -> TenantId {
        match self {
            Self::Memory(_) => TenantId::default_tenant(),
            Self::Engine { tenant, .. } => tenant.clone(),
        }
    }

    /// Runs `work` with the series of one request.
    pub(super) async fn ask<T>(&self, work: impl AsyncFnOnce(&Series<'_>) -> T) -> T {
        match self {
            Self::Memory(stored) => work(&Series::Memory(stored)).await,
            Self::Engine { opened, rules, .. } => {
                let samples = opened.engine().sources().samples;
                let options = StoredOptions { lookback: LOOKBACK, ..StoredOptions::default() };
                work(&Series::Engine(StoredSeries::new(&*samples, Arc::clone(rules), options))).await
            }
        }
    }

    /// Stops the engine, if there is one.
    pub(super) async fn close(self) -> Result<(), String> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Engine { opened, .. } => opened.close().await,
        }
    }
}

impl Series<'_> {
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Self::Memory(stored) => *stored,
            Self::Engine(stored) => stored,
        }
    }

    pub(super) fn names(&self) -> &dyn Names {
        match self {
            Self::Memory(stored) => *stored,
            Self::Engine(stored) => stored,
        }
    }
}

fn written(series: &Value) -> Result<Written, String> {
    let name = string(series, "name");
    let labels = match name.contains(';') {
        false => graphite_path_labels(name),
        true => {
            let tags = parse_name(name).map_err(|error| error.to_string())?;
            let others = tags.iter().filter(|(tag, _)| *tag != "name");
            graphite_tagged_labels(tags.get("name").unwrap_or_default(), others)
        }
    };
    let labels = labels.map_err(|error| format!("{name}: {error}"))?;
    let mut samples = vec![(CREATED * 1000, 0.0)];
    for point in series["points"].as_array().into_iter().flatten() {
        let wrong = || format!("{name}: a point cannot be read");
        samples.push((point[0].as_i64().ok_or_else(wrong)? * 1000, point[1].as_f64().ok_or_else(wrong)?));
    }
    // Of several points at one time, the last counts.
    samples.reverse();
    samples.sort_by_key(|(time, _)| *time);
    samples.dedup_by_key(|(time, _)| *time);
    Ok((labels, samples))
}

/// Returns rules with a section for each series in both files.
fn rules<'a>(all: impl Iterator<Item = &'a Value>) -> Result<StorageRules, String> {
    let (mut schemas, mut aggregation) = (String::new(), String::new());
    for series in all {
        let tags = parse_name(string(series, "name")).map_err(|error| error.to_string())?;
        let name = canonical_name(&tags);
        // A percent sign begins an interpolation in these files.
        let pattern = regex::escape(&name).replace('%', "%%");
        let head = format!("[{name}]\npattern = ^{pattern}$\n");
        let _ = writeln!(schemas, "{head}retentions = {}", string(series, "retentions"));
        let (method, share) = (string(series, "aggregationMethod"), &series["xFilesFactor"]);
        let _ = writeln!(aggregation, "{head}aggregationMethod = {method}\nxFilesFactor = {share}");
    }
    let schemas = RulesFile { name: "storage-schemas.conf", text: &schemas };
    let aggregation = RulesFile { name: "storage-aggregation.conf", text: &aggregation };
    StorageRules::read(Some(schemas), Some(aggregation)).map_err(|error| error.to_string())
}

/// Returns one push with the samples that `is_in` selects by their index in the series.
fn batch(tenant: &TenantId, all: &[Written], is_in: impl Fn(usize) -> bool) -> SampleBatch {
    let mut batch = SampleBatch::new(tenant.clone());
    for (labels, samples) in all {
        batch.push(Arc::new(labels.clone()), []);
        for (_, (time, value)) in samples.iter().enumerate().filter(|(n, _)| is_in(*n)) {
            batch.push_sample(*time, *value);
        }
    }
    batch
}

//! The description of a block: `meta.json`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Error;

/// Largest `meta.json`: blocks that were compacted from thousands of others name all of them.
const META_BYTES_MAX: usize = 64 << 20;

/// The description of a block.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct BlockMeta {
    /// The block's id, which is the name of its folder.
    pub ulid: String,
    /// Time of the first sample, in milliseconds.
    #[serde(rename = "minTime")]
    pub min_ms: i64,
    /// Time after the last sample.
    #[serde(rename = "maxTime")]
    pub max_ms: i64,
    /// The version of the block.
    pub version: u32,
    #[serde(default)]
    stats: Stats,
    #[serde(default)]
    thanos: Thanos,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
struct Stats {
    #[serde(default, rename = "numSamples")]
    samples: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
struct Thanos {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    downsample: Downsample,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
struct Downsample {
    #[serde(default)]
    resolution: i64,
}

impl BlockMeta {
    /// Reads `meta.json`.
    pub fn decode(json: &[u8]) -> Result<Self, Error> {
        let what = "meta.json";
        if json.len() > META_BYTES_MAX {
            let (found, limit) = (json.len() as u64, META_BYTES_MAX as u64);
            return Err(Error::TooLarge { what, found, limit });
        }
        let meta: Self = serde_json::from_slice(json).map_err(|_| Error::Malformed { what })?;
        if meta.version != 1 {
            return Err(Error::Kind { what: "a block of version 1" });
        }
        Ok(meta)
    }

    /// Whether Thanos has downsampled the block: its chunks have aggregates instead of samples.
    pub fn is_downsampled(&self) -> bool {
        self.thanos.downsample.resolution > 0
    }

    /// The external labels that Thanos adds to each series. Those that begin with `__` are left out: Mimir
    /// notes there the tenant and the shard of a block (`__org_id__`, `__compactor_shard_id__`).
    pub fn external_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.thanos.labels.iter().flatten();
        labels
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| !name.starts_with("__"))
    }

    /// The number of samples, if the file says it.
    pub fn samples(&self) -> u64 {
        self.stats.samples
    }
}

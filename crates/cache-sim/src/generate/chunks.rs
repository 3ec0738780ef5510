//! Streams divided into chunks: which exist, when each is finished, and which overlap a time range.
//!
//! Chunk `n` of a stream covers one period that begins `n` periods after the stream's own phase. Its key
//! and size are hashes of stream and number, so that no chunk is stored in memory.

use std::collections::VecDeque;

use super::queries::Query;
use super::workload::{HOUR_S, Workload};
use crate::draws::{Draws, mix};
use sandur_cache::Hint;
use sandur_cache::model::{Kind, Request};

/// Standard deviation of the logarithm of sizes: 68 % are within a factor of 2 of the median.
const SIZE_SIGMA: f64 = std::f64::consts::LN_2;

/// A value that can be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) hash: u64,
    pub(super) bytes: u32,
    pub(super) tenant: u32,
}

/// All chunks of a workload.
#[derive(Debug)]
pub(super) struct Chunks {
    seed: u64,
    period_s: i64,
    split_s: i64,
    oldest_s: i64,
    median_bytes: f64,
    streams_per_tenant: u32,
    /// Second of its period at which each stream finishes a chunk.
    phases: Vec<i64>,
    /// Streams sorted by phase: the order in which they are flushed.
    order: Vec<u32>,
}

impl Chunks {
    pub(super) fn new(workload: &Workload) -> Self {
        let period_s = i64::from(workload.chunk_minutes.max(1)) * 60;
        let phases: Vec<i64> = (0..workload.streams)
            .map(|stream| Draws::new(mix(workload.seed ^ u64::from(stream))).below(period_s as u64) as i64)
            .collect();
        let mut order: Vec<u32> = (0..workload.streams).collect();
        order.sort_by_key(|stream| phases[*stream as usize]);
        Self {
            seed: mix(workload.seed),
            period_s,
            split_s: i64::from(workload.split_minutes.max(1)) * 60,
            oldest_s: -i64::from(workload.history_hours) * HOUR_S,
            // The mean of a log-normal distribution is its median times exp(sigma^2 / 2).
            median_bytes: f64::from(workload.chunk_bytes) / (SIZE_SIGMA * SIZE_SIGMA / 2.0).exp(),
            streams_per_tenant: (workload.streams / workload.tenants.max(1)).max(1),
            phases,
            order,
        }
    }

    /// When the first chunk is finished.
    pub(super) fn first_end_s(&self) -> i64 {
        self.order.first().map_or(i64::MAX, |stream| self.phases[*stream as usize])
    }

    /// The write of the chunk that the stream at position `place` of the order finishes at `at_s`.
    pub(super) fn flush(&self, place: u32, at_s: i64) -> Request {
        let stream = self.order[place as usize];
        let number = (at_s - self.phases[stream as usize]) / self.period_s - 1;
        request(at_s, self.chunk(stream, number), Kind::Write, Hint::Ingest)
    }

    /// The position that flushes next, and the time.
    pub(super) fn after(&self, place: u32, at_s: i64) -> (u32, i64) {
        let (next, period_start) = if place as usize + 1 < self.order.len() {
            (place + 1, at_s - self.phases[self.order[place as usize] as usize])
        } else {
            (0, at_s - self.phases[self.order[place as usize] as usize] + self.period_s)
        };
        (next, period_start + self.phases[self.order[next as usize] as usize])
    }

    /// Appends the reads of a query that runs at `at_s`, part by part, newest first. A part reads all
    /// chunks of all streams that overlap it.
    pub(super) fn read(&self, query: &Query, hint: Hint, at_s: i64, reads: &mut VecDeque<Request>) {
        let mut end_s = query.to_s;
        while end_s > query.from_s {
            // Parts end at multiples of the split, as in Loki.
            let start_s = ((end_s - 1).div_euclid(self.split_s) * self.split_s).max(query.from_s);
            for stream in query.streams.clone() {
                let phase = self.phases[stream as usize];
                let first = (start_s - phase).div_euclid(self.period_s);
                let last = (end_s - 1 - phase).div_euclid(self.period_s);
                for number in first..=last {
                    let (from_s, to_s) =
                        (number * self.period_s + phase, (number + 1) * self.period_s + phase);
                    if to_s <= at_s && from_s >= self.oldest_s {
                        reads.push_back(request(at_s, self.chunk(stream, number), Kind::Read, hint));
                    }
                }
            }
            end_s = start_s;
        }
    }

    /// Estimated bytes that a query reads.
    pub(super) fn estimate(&self, query: &Query) -> u64 {
        let chunks = (query.to_s - query.from_s) as f64 / self.period_s as f64 + 1.0;
        (query.streams.len() as f64 * chunks * self.median_bytes) as u64
    }

    fn chunk(&self, stream: u32, number: i64) -> Chunk {
        let hash = mix(self.seed ^ mix((u64::from(stream) << 32) ^ number as u64));
        let mut draws = Draws::new(hash);
        // Box-Muller transform: two uniform numbers give a normal one.
        let (radius, angle) =
            ((-2.0 * (1.0 - draws.unit()).ln()).sqrt(), draws.unit() * std::f64::consts::TAU);
        let bytes = self.median_bytes * (SIZE_SIGMA * radius * angle.cos()).exp();
        Chunk { hash, bytes: bytes.clamp(64.0, 1e9) as u32, tenant: stream / self.streams_per_tenant }
    }
}

/// A write or read of a chunk.
pub(super) fn request(at_s: i64, chunk: Chunk, kind: Kind, hint: Hint) -> Request {
    let Chunk { hash, bytes, tenant } = chunk;
    Request { at_s: at_s as u32, hash, bytes, kind, hint, tenant }
}

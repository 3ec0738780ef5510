//! Generated accesses of an observability store: seeded, of any length, without a trace.
//!
//! Streams of logs are divided into chunks, which ingesters write once, when they are full. Queries read the
//! chunks of some streams over some time range. Dashboards read the newest chunks repeatedly; users read
//! recent chunks and sometimes old ones; audits read all chunks of weeks. A query is split by time and every
//! part reads all chunks that overlap it, so that a chunk is read by each part that it overlaps.
//!
//! **Invariants.** Equal [`Workload`]s yield equal requests, sorted by time. Unfinished chunks are never
//! read: they are in the ingesters' memory. Memory is bounded by the largest query. Reads carry the hint
//! that the database gives: the size of their complete query.

mod chunks;
mod key_value;
mod queries;
mod workload;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use self::chunks::Chunks;
use self::queries::Queries;
use self::workload::HOUR_S;
use super::draws::{Draws, pause};
pub use key_value::KeyValues;
use sandur_cache::Hint;
use sandur_cache::model::Request;
pub use workload::Workload;

/// Scheduled events, sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Flush { place: u32 },
    Refresh { dashboard: u32 },
    Query,
    Scan,
    GoOn { scan: u32 },
}

/// The requests of a [`Workload`].
#[derive(Debug)]
pub struct Generated {
    workload: Workload,
    chunks: Chunks,
    queries: Queries,
    draws: Draws,
    agenda: BinaryHeap<Reverse<(i64, Event)>>,
    scans: Vec<VecDeque<Request>>,
    ready: VecDeque<Request>,
}

impl Workload {
    /// The default workload with audits: two dozen a day, each of which reads ten days of one tenant, so
    /// that audits read several times as much as users and dashboards.
    pub fn audits(seed: u64) -> Self {
        Self { seed, hours: 7 * 24, scans_per_day: 24.0, ..Self::default() }
    }

    /// Dashboards and users together with scans of 20 GB, ten times a cache of 2 GB. One scan begins each
    /// hour on average. While it runs it replaces such a cache forty times an hour, the largest rate
    /// published for a chunk cache under queries over millions of chunks ([`super::story`]). Dashboards show
    /// about a gigabyte and are refreshed every five minutes. A query reads each chunk once.
    pub fn mixed_scans(seed: u64) -> Self {
        Self {
            seed,
            hours: 36,
            history_hours: 30 * 24,
            tenants: 2,
            dashboards: 40,
            refresh_s: 300,
            dashboard_hours: 6.0,
            dashboard_streams: 12,
            scans_per_day: 24.0,
            scan_hours: 400,
            scan_streams: 100,
            scan_chunks_per_s: 44,
            split_minutes: 24 * 60,
            ..Self::default()
        }
    }

    /// Generates the requests.
    pub fn generate(&self) -> Generated {
        let mut draws = Draws::new(self.seed);
        let mut agenda = BinaryHeap::new();
        let chunks = Chunks::new(self);
        agenda.push(Reverse((chunks.first_end_s(), Event::Flush { place: 0 })));
        for dashboard in 0..self.dashboards {
            let at = draws.below(u64::from(self.refresh_s.max(1))) as i64;
            agenda.push(Reverse((at, Event::Refresh { dashboard })));
        }
        if self.queries_per_hour > 0.0 {
            agenda.push(Reverse((0, Event::Query)));
        }
        if self.scans_per_day > 0.0 {
            let at = pause(&mut draws, 24.0 * HOUR_S as f64 / self.scans_per_day) as i64;
            agenda.push(Reverse((at, Event::Scan)));
        }
        let queries = Queries::new(self, &mut draws);
        let (scans, ready, workload) = (Vec::new(), VecDeque::new(), self.clone());
        Generated { workload, chunks, queries, draws, agenda, scans, ready }
    }

    /// Length in seconds.
    pub fn length_s(&self) -> u32 {
        self.hours * HOUR_S as u32
    }
}

impl Generated {
    fn happen(&mut self, at_s: i64, event: Event) {
        match event {
            Event::Flush { place } => {
                self.ready.push_back(self.chunks.flush(place, at_s));
                let (next, at) = self.chunks.after(place, at_s);
                self.plan(at, Event::Flush { place: next });
            }
            Event::Refresh { dashboard } => {
                let query = self.queries.dashboard(dashboard, at_s);
                let hint = Hint::Scan { bytes: self.chunks.estimate(&query) };
                self.chunks.read(&query, hint, at_s, &mut self.ready);
                self.plan(at_s + i64::from(self.workload.refresh_s.max(1)), Event::Refresh { dashboard });
            }
            Event::Query => {
                let query = self.queries.of_user(at_s, &mut self.draws);
                let hint = Hint::Scan { bytes: self.chunks.estimate(&query) };
                self.chunks.read(&query, hint, at_s, &mut self.ready);
                let mean_s = HOUR_S as f64 / self.workload.queries_per_hour / self.activity(at_s);
                let pause_s = pause(&mut self.draws, mean_s).min(HOUR_S as f64);
                self.plan(at_s + pause_s as i64, Event::Query);
            }
            Event::Scan => {
                let query = self.queries.audit(at_s, &mut self.draws);
                let hint = Hint::Scan { bytes: self.chunks.estimate(&query) };
                let mut requests = VecDeque::new();
                self.chunks.read(&query, hint, at_s, &mut requests);
                self.scans.push(requests);
                self.plan(at_s, Event::GoOn { scan: (self.scans.len() - 1) as u32 });
                let mean_s = 24.0 * HOUR_S as f64 / self.workload.scans_per_day;
                let pause_s = pause(&mut self.draws, mean_s) as i64;
                self.plan(at_s + pause_s, Event::Scan);
            }
            Event::GoOn { scan } => {
                let scanned = &mut self.scans[scan as usize];
                let count = scanned.len().min(self.workload.scan_chunks_per_s.max(1) as usize);
                let batch = scanned.drain(..count);
                self.ready.extend(batch.map(|request| Request { at_s: at_s as u32, ..request }));
                if scanned.is_empty() {
                    *scanned = VecDeque::new();
                } else {
                    self.plan(at_s + 1, Event::GoOn { scan });
                }
            }
        }
    }

    fn plan(&mut self, at_s: i64, event: Event) {
        self.agenda.push(Reverse((at_s, event)));
    }

    /// Activity of users relative to the mean of a day: a sine with its maximum at noon.
    fn activity(&self, at_s: i64) -> f64 {
        let hour = (at_s % (24 * HOUR_S)) as f64 / HOUR_S as f64;
        let sine = ((hour - 12.0) / 24.0 * std::f64::consts::TAU).cos();
        (1.0 + self.workload.day_swing * sine).max(0.05)
    }
}

impl Iterator for Generated {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Some(request);
            }
            let Reverse((at_s, event)) = self.agenda.pop()?;
            if at_s >= i64::from(self.workload.length_s()) {
                return None;
            }
            self.happen(at_s, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_cache::model::Kind;

    use super::*;

    fn small() -> Workload {
        Workload { hours: 24, ..Workload::default() }
    }

    #[test]
    fn the_seed_determines_the_requests() {
        let sum = |workload: &Workload| {
            workload.generate().fold((0u64, 0u64), |(count, sum), request| {
                (count + 1, sum.wrapping_mul(31).wrapping_add(request.hash ^ u64::from(request.at_s)))
            })
        };
        assert_eq!(sum(&small()), sum(&small()));
        assert_ne!(sum(&small()), sum(&Workload { seed: 2, ..small() }));
    }

    #[test]
    fn times_never_decrease_and_every_chunk_is_written_once_before_it_is_read() {
        let mut written = std::collections::HashSet::new();
        let mut read_fresh = 0;
        let mut last = 0;
        for request in small().generate() {
            assert!(request.at_s >= last, "{} after {last}", request.at_s);
            last = request.at_s;
            match request.kind {
                Kind::Write => assert!(written.insert(request.hash), "written twice"),
                Kind::Read => read_fresh += u64::from(written.contains(&request.hash)),
            }
        }
        assert!((4_700..=4_900).contains(&written.len()), "{} chunks of 200 streams", written.len());
        assert!(read_fresh > 10_000, "{read_fresh}");
    }

    #[test]
    fn users_read_more_at_noon() {
        let workload = Workload { dashboards: 0, scans_per_day: 0.0, hours: 240, ..Workload::default() };
        let mut by_hour = [0u64; 24];
        for request in workload.generate().filter(|r| r.kind == Kind::Read) {
            by_hour[(request.at_s / 3_600 % 24) as usize] += 1;
        }
        let (night, noon): (u64, u64) = (by_hour[..4].iter().sum(), by_hour[10..14].iter().sum());
        assert!(noon > 3 * night, "{noon} reads around noon, {night} after midnight");
    }
}

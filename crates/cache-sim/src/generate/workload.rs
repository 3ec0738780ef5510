//! The life of an observability store that is made up: how much is written and asked for.

/// Seconds of an hour.
pub(crate) const HOUR_S: i64 = 3_600;

/// What is generated. All times are of the simulated clock; sizes are those of compressed chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Seed of everything drawn.
    pub seed: u64,
    /// Length in hours.
    pub hours: u32,
    /// Hours of chunks that exist already when it begins.
    pub history_hours: u32,
    /// Streams that are written all the time.
    pub streams: u32,
    /// Tenants, each with as many streams.
    pub tenants: u32,
    /// Minutes that a chunk covers.
    pub chunk_minutes: u32,
    /// Mean bytes of a chunk; single ones are spread log-normally around it by a factor of 2.
    pub chunk_bytes: u32,
    /// Skew of which streams are asked for: a stream's share falls as its rank to the minus this.
    pub stream_skew: f64,
    /// Queries by people per hour, on average over the day.
    pub queries_per_hour: f64,
    /// Streams of such a query: from one to this many, log-uniform.
    pub query_streams: u32,
    /// How old the newest data is that a query asks for: share of queries, and the age in hours up to
    /// which it is log-uniform.
    pub ages: Vec<(f64, f64)>,
    /// Shortest and longest time range of such a query in hours, log-uniform.
    pub range_hours: (f64, f64),
    /// Dashboards that are open all the time.
    pub dashboards: u32,
    /// Seconds between two refreshes of a dashboard.
    pub refresh_s: u32,
    /// Hours that a dashboard shows.
    pub dashboard_hours: f64,
    /// Streams of a dashboard.
    pub dashboard_streams: u32,
    /// Large scans per day.
    pub scans_per_day: f64,
    /// Hours of history that such a scan reads.
    pub scan_hours: u32,
    /// Streams of such a scan.
    pub scan_streams: u32,
    /// Chunks that such a scan reads per second.
    pub scan_chunks_per_s: u32,
    /// Minutes of a part of a query.
    pub split_minutes: u32,
    /// How much more people ask at noon than on average: 0 for a level day, 1 for none at midnight.
    pub day_swing: f64,
}

impl Default for Workload {
    /// A small cell: 200 streams, 2.4 GB a day, recent data asked for most, two audits a day.
    fn default() -> Self {
        Self {
            seed: 1,
            hours: 72,
            history_hours: 14 * 24,
            streams: 200,
            tenants: 10,
            chunk_minutes: 60,
            chunk_bytes: 500_000,
            stream_skew: 0.8,
            queries_per_hour: 60.0,
            query_streams: 50,
            ages: vec![(0.6, 3.0), (0.25, 24.0), (0.15, 14.0 * 24.0)],
            range_hours: (0.25, 24.0),
            dashboards: 20,
            refresh_s: 300,
            dashboard_hours: 3.0,
            dashboard_streams: 10,
            scans_per_day: 2.0,
            scan_hours: 10 * 24,
            scan_streams: 100,
            scan_chunks_per_s: 20,
            split_minutes: 30,
            day_swing: 0.7,
        }
    }
}

//! The parameters of a generated observability store: how much is written and read.

/// Seconds of an hour.
pub(crate) const HOUR_S: i64 = 3_600;

/// The parameters. All times are of the simulated clock; sizes are of compressed chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Length in hours.
    pub hours: u32,
    /// Hours of chunks that exist at the start.
    pub history_hours: u32,
    /// Number of streams, which are written continuously.
    pub streams: u32,
    /// Number of tenants, each with the same number of streams.
    pub tenants: u32,
    /// Minutes that a chunk covers.
    pub chunk_minutes: u32,
    /// Mean bytes of a chunk. Sizes are log-normal around it with a factor of 2.
    pub chunk_bytes: u32,
    /// Skew of the popularity of streams: a stream's share of queries is proportional to rank^-skew.
    pub stream_skew: f64,
    /// Queries of users per hour, averaged over the day.
    pub queries_per_hour: f64,
    /// Largest number of streams of such a query; the smallest is one, log-uniform.
    pub query_streams: u32,
    /// Ages of the newest data of a query: pairs of a share of queries, and the age in hours up to which
    /// it is log-uniform.
    pub ages: Vec<(f64, f64)>,
    /// Shortest and longest time range of such a query in hours, log-uniform.
    pub range_hours: (f64, f64),
    /// Number of dashboards, which are always open.
    pub dashboards: u32,
    /// Seconds between two refreshes of a dashboard.
    pub refresh_s: u32,
    /// Hours of data that a dashboard shows.
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
    /// Minutes of each part into which a query is split.
    pub split_minutes: u32,
    /// How much more users read at noon than on average: 0 for a constant rate, 1 for no reads at midnight.
    pub day_swing: f64,
}

impl Default for Workload {
    /// A small cell: 200 streams, 2.4 GB a day, mostly recent data requested, two audits a day.
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

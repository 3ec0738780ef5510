//! The dashboards of Sandur and their panels.
//!
//! `$i` in a query is the selection of the instances that the viewer chose, and `$r` the window of a rate.

use super::panel::Unit::{Bytes, BytesPerSecond, Dollars, Fraction, Number, PerSecond, Seconds};
use super::panel::{Dashboard, Panel, graph, stat};

/// The dashboards, by the names of their files.
pub const DASHBOARDS: &[Dashboard] = &[
    Dashboard { name: "overview", title: "Sandur: overview", panels: OVERVIEW },
    Dashboard { name: "ingest", title: "Sandur: ingest", panels: INGEST },
    Dashboard { name: "queries", title: "Sandur: queries", panels: QUERIES },
    Dashboard { name: "cache", title: "Sandur: cache", panels: CACHE },
    Dashboard { name: "store", title: "Sandur: store", panels: STORE },
    Dashboard { name: "cost", title: "Sandur: cost", panels: COST },
];

/// A series for each of three quantiles of a histogram.
macro_rules! quantiles {
    ($title:expr, $about:expr, $histogram:literal) => {
        graph(
            $title,
            $about,
            Seconds,
            &[
                (
                    concat!("histogram_quantile(0.5, sum by (le) (rate(", $histogram, "_bucket{$i}[$r])))"),
                    "p50",
                ),
                (
                    concat!("histogram_quantile(0.9, sum by (le) (rate(", $histogram, "_bucket{$i}[$r])))"),
                    "p90",
                ),
                (
                    concat!("histogram_quantile(0.99, sum by (le) (rate(", $histogram, "_bucket{$i}[$r])))"),
                    "p99",
                ),
            ],
        )
    };
}

/// The quantile 0.99 of a histogram by a label.
macro_rules! p99_by {
    ($title:expr, $about:expr, $histogram:literal, $label:literal) => {
        graph(
            $title,
            $about,
            Seconds,
            &[(
                concat!(
                    "histogram_quantile(0.99, sum by (le, ",
                    $label,
                    ") (rate(",
                    $histogram,
                    "_bucket{$i}[$r])))"
                ),
                concat!("{{", $label, "}}"),
            )],
        )
    };
}

const OVERVIEW: &[Panel] = &[
    stat(
        "Processes",
        "Number of processes by version.",
        Number,
        &[("count by (version) (sandur_build_info{$i})", "{{version}}")],
    ),
    stat(
        "Processes that take pushes",
        "If a process takes none, /ready?for=push says why.",
        Number,
        &[("sum(sandur_engine_writable{$i})", "")],
    ),
    stat(
        "Oldest view of the store",
        "Beyond query.max_view_age (5 s), answers have a warning.",
        Seconds,
        &[("max(sandur_engine_view_age_seconds{$i})", "")],
    ),
    stat(
        "Requests to the store",
        "Cost of 30 days at the rate of the last hour.",
        Dollars,
        &[("sum(sandur_store_cost_dollars_per_month{$i})", "")],
    ),
    graph(
        "Rows",
        "Accepted rows by kind.",
        PerSecond,
        &[
            ("sum(rate(sandur_push_entries_total{$i}[$r]))", "log lines"),
            ("sum(rate(sandur_push_samples_total{$i}[$r]))", "samples"),
            ("sum(rate(sandur_carbon_accepted_points_total{$i}[$r]))", "points by carbon's protocols"),
        ],
    ),
    graph(
        "Requests by scope",
        "Pushes have the scope write, queries the scope read.",
        PerSecond,
        &[("sum by (scope) (rate(sandur_http_requests_total{$i}[$r]))", "{{scope}}")],
    ),
    graph(
        "Failed requests",
        "499: the client disconnected before the answer.",
        PerSecond,
        &[(
            "sum by (scope, status) (rate(sandur_http_requests_total{$i,status=~\"5..|499|429\"}[$r]))",
            "{{scope}} {{status}}",
        )],
    ),
    graph(
        "Resident memory",
        "It stays below 1.1 times memory_limit.",
        Bytes,
        &[("sum by (instance) (sandur_memory_resident_bytes{$i})", "{{instance}}")],
    ),
    graph(
        "Use of memory budgets",
        "A full budget delays or refuses the work that it is for.",
        Fraction,
        &[(
            "max by (budget) (sandur_memory_budget_used_bytes{$i} / \
             (sandur_memory_budget_limit_bytes{$i} > 0))",
            "{{budget}}",
        )],
    ),
    graph(
        "Open connections",
        "Connections of all listeners of HTTP.",
        Number,
        &[("sum by (instance) (sandur_http_connections{$i})", "{{instance}}")],
    ),
    quantiles!(
        "Delay of I/O threads",
        "More than some tens of milliseconds for long: too few processors, or a bug.",
        "sandur_io_delay_seconds"
    ),
    graph(
        "Writers",
        "Registered processes; a dead one is adopted after cluster.dead_after.",
        Number,
        &[
            ("max(sandur_catalog_writers{$i})", "registered"),
            ("sum(increase(sandur_engine_adoptions_total{$i}[$r]))", "adopted"),
            ("sum(increase(sandur_engine_fenced_total{$i}[$r]))", "fenced"),
        ],
    ),
];

const INGEST: &[Panel] = &[
    graph(
        "Rows",
        "Accepted rows by kind.",
        PerSecond,
        &[
            ("sum(rate(sandur_push_entries_total{$i}[$r]))", "log lines"),
            ("sum(rate(sandur_push_samples_total{$i}[$r]))", "samples"),
            ("sum(rate(sandur_push_histograms_total{$i}[$r]))", "histograms"),
            ("sum(rate(sandur_carbon_accepted_points_total{$i}[$r]))", "points by carbon's protocols"),
        ],
    ),
    graph(
        "Bytes of lines",
        "Accepted lines, without labels.",
        BytesPerSecond,
        &[("sum by (instance) (rate(sandur_push_line_bytes_total{$i}[$r]))", "{{instance}}")],
    ),
    graph(
        "Refused rows",
        "By the limit that refused them; the log names the tenant.",
        PerSecond,
        &[
            ("sum by (reason) (rate(sandur_push_refused_entries_total{$i}[$r]))", "lines: {{reason}}"),
            ("sum by (reason) (rate(sandur_push_refused_samples_total{$i}[$r]))", "samples: {{reason}}"),
            ("sum(rate(sandur_carbon_rejected_points_total{$i}[$r]))", "points"),
            ("sum(rate(sandur_memory_pressure_refusals_total{$i}[$r]))", "pushes: memory"),
        ],
    ),
    graph(
        "Failed pushes",
        "499: the sender gave up first.",
        PerSecond,
        &[(
            "sum by (status) (rate(sandur_http_requests_total{$i,\
             scope=\"write\",status=~\"5..|499|429\"}[$r]))",
            "{{status}}",
        )],
    ),
    quantiles!(
        "Time to acknowledge",
        "From a decoded push until its rows are durable.",
        "sandur_engine_push_seconds"
    ),
    quantiles!(
        "Time to write the WAL",
        "One frame of the WAL, on the disk or in the bucket.",
        "sandur_engine_wal_seconds"
    ),
    graph(
        "WAL",
        "Durable frames, and attempts that failed.",
        PerSecond,
        &[
            ("sum(rate(sandur_engine_wal_frames_total{$i}[$r]))", "frames"),
            ("sum(rate(sandur_engine_wal_failures_total{$i}[$r]))", "failures"),
        ],
    ),
    graph(
        "Bytes of the WAL",
        "Compressed.",
        BytesPerSecond,
        &[("sum by (instance) (rate(sandur_engine_wal_bytes_total{$i}[$r]))", "{{instance}}")],
    ),
    graph(
        "Age of rows that are not in blocks",
        "Rises above flush.max_age if flushes fail or hang.",
        Seconds,
        &[
            ("max by (instance) (sandur_engine_unflushed_seconds{$i})", "{{instance}}"),
            ("max(sandur_engine_flush_failing_seconds{$i})", "flushes fail since"),
        ],
    ),
    graph(
        "Rows in memory",
        "Rows of the heads, own ones and those of other writers.",
        Number,
        &[("sum by (instance) (sandur_engine_head_rows{$i})", "{{instance}}")],
    ),
    graph(
        "Flushes",
        "Heads that became blocks, and attempts that failed.",
        PerSecond,
        &[
            ("sum(rate(sandur_engine_flushes_total{$i}[$r]))", "flushes"),
            ("sum(rate(sandur_engine_flush_failures_total{$i}[$r]))", "failures"),
            ("sum(rate(sandur_engine_blocks_total{$i}[$r]))", "blocks"),
        ],
    ),
    graph(
        "Duplicates",
        "Rows that were stored already, which happens when pushes are repeated.",
        PerSecond,
        &[
            ("sum(rate(sandur_engine_duplicates_total{$i}[$r]))", "lines"),
            ("sum(rate(sandur_engine_sample_duplicates_total{$i}[$r]))", "samples"),
        ],
    ),
    graph(
        "Carbon",
        "Points that are durable, and batches that had to be stored again.",
        PerSecond,
        &[
            ("sum(rate(sandur_carbon_durable_points_total{$i}[$r]))", "durable"),
            ("sum(rate(sandur_carbon_repeats_total{$i}[$r]))", "repeats"),
        ],
    ),
];

const QUERIES: &[Panel] = &[
    graph(
        "Queries",
        "Queries that ended, were given up by clients, or were ended because memory was short.",
        PerSecond,
        &[
            ("sum(rate(sandur_queries_total{$i}[$r]))", "ended"),
            ("sum(rate(sandur_queries_cancelled_total{$i}[$r]))", "given up"),
            ("sum(rate(sandur_queries_starved_total{$i}[$r]))", "memory short"),
        ],
    ),
    graph(
        "Running and waiting",
        "Waiting queries: add processors, or lower limits.max_query_parallelism.",
        Number,
        &[
            ("sum(sandur_queries_running{$i})", "running"),
            ("sum(sandur_queries_waiting{$i})", "waiting"),
            ("sum(sandur_followers{$i})", "followers of new lines"),
        ],
    ),
    p99_by!(
        "Slowest routes",
        "The quantile 0.99 of the time to answer.",
        "sandur_http_request_seconds",
        "route"
    ),
    graph(
        "Requests by route",
        "Only routes of queries.",
        PerSecond,
        &[("sum by (route) (rate(sandur_http_requests_total{$i,scope=\"read\"}[$r]))", "{{route}}")],
    ),
    graph(
        "Failed queries",
        "499: the client disconnected before the answer.",
        PerSecond,
        &[(
            "sum by (status) (rate(sandur_http_requests_total{$i,scope=\"read\",status=~\"[45]..\"}[$r]))",
            "{{status}}",
        )],
    ),
    graph(
        "Examined lines",
        "Bytes of lines that queries examined.",
        BytesPerSecond,
        &[("sum by (instance) (rate(sandur_query_line_bytes_total{$i}[$r]))", "{{instance}}")],
    ),
    graph(
        "Step cache",
        "Results of steps that were found, or had to be computed.",
        PerSecond,
        &[("sum by (outcome) (rate(sandur_result_cache_outcomes_total{$i}[$r]))", "{{outcome}}")],
    ),
    graph(
        "Size of the step cache",
        "Number of its units.",
        Number,
        &[("sum by (instance) (sandur_result_cache_units{$i})", "{{instance}}")],
    ),
];

const CACHE: &[Panel] = &[
    stat(
        "Hit ratio",
        "Lookups that memory or flash answered.",
        Fraction,
        &[(
            "sum(rate(sandur_cache_lookups_total{$i,tier!=\"miss\"}[$r])) / \
             sum(rate(sandur_cache_lookups_total{$i}[$r]))",
            "",
        )],
    ),
    stat(
        "State of flash",
        "0: works, 1: slow, 2: no writes, 3: failed.",
        Number,
        &[("max(sandur_cache_flash_health{$i})", "")],
    ),
    stat(
        "Capacity of flash",
        "Bytes of all segments.",
        Bytes,
        &[("sum(sandur_cache_flash_capacity_bytes{$i})", "")],
    ),
    stat(
        "Records on flash",
        "Parts of blocks that are on flash.",
        Number,
        &[("sum(sandur_cache_flash_records{$i})", "")],
    ),
    graph(
        "Lookups",
        "By the tier that answered.",
        PerSecond,
        &[("sum by (tier) (rate(sandur_cache_lookups_total{$i}[$r]))", "{{tier}}")],
    ),
    p99_by!("Time of a lookup", "The quantile 0.99 by tier.", "sandur_cache_lookup_seconds", "tier"),
    graph(
        "Memory",
        "Memory of the cache and its limit.",
        Bytes,
        &[
            ("sum(sandur_cache_memory_used_bytes{$i})", "used"),
            ("sum(sandur_cache_memory_limit_bytes{$i})", "limit"),
        ],
    ),
    graph(
        "Bytes of flash",
        "Values that were admitted, and what was written and read.",
        BytesPerSecond,
        &[("sum by (what) (rate(sandur_cache_flash_bytes_total{$i}[$r]))", "{{what}}")],
    ),
    graph(
        "Values that leave memory",
        "By reason.",
        PerSecond,
        &[("sum by (why) (rate(sandur_cache_ram_left_total{$i}[$r]))", "{{why}}")],
    ),
    graph(
        "Values that are not admitted to flash",
        "By reason.",
        PerSecond,
        &[("sum by (why) (rate(sandur_cache_flash_refused_total{$i}[$r]))", "{{why}}")],
    ),
    graph(
        "Records that leave flash",
        "By reason.",
        PerSecond,
        &[("sum by (why) (rate(sandur_cache_flash_dropped_total{$i}[$r]))", "{{why}}")],
    ),
    graph(
        "Reads of flash",
        "By result.",
        PerSecond,
        &[("sum by (result) (rate(sandur_cache_flash_reads_total{$i}[$r]))", "{{result}}")],
    ),
    graph(
        "Evicted unread",
        "Fraction of evicted values that no lookup found.",
        Fraction,
        &[(
            "sum(rate(sandur_cache_evicted_total{$i,fetched=\"no\"}[$r])) / \
             sum(rate(sandur_cache_evicted_total{$i}[$r]))",
            "",
        )],
    ),
];

const STORE: &[Panel] = &[
    graph(
        "Requests by purpose",
        "Retries and hedged requests included.",
        PerSecond,
        &[("sum by (class) (rate(sandur_store_requests_total{$i}[$r]))", "{{class}}")],
    ),
    graph(
        "Requests by operation",
        "Retries and hedged requests included.",
        PerSecond,
        &[("sum by (operation) (rate(sandur_store_requests_total{$i}[$r]))", "{{operation}}")],
    ),
    p99_by!(
        "Slowest requests",
        "The quantile 0.99 of the duration by purpose.",
        "sandur_store_request_seconds",
        "class"
    ),
    graph(
        "Errors",
        "Failed requests by reason, and retries.",
        PerSecond,
        &[
            ("sum by (reason) (rate(sandur_store_errors_total{$i}[$r]))", "{{reason}}"),
            ("sum(rate(sandur_store_retries_total{$i}[$r]))", "retries"),
        ],
    ),
    graph(
        "Bytes",
        "Bytes in bodies, both ways.",
        BytesPerSecond,
        &[("sum by (operation) (rate(sandur_store_transferred_bytes_total{$i}[$r]))", "{{operation}}")],
    ),
    graph(
        "Concurrent requests",
        "By lane, with requests that wait for a slot.",
        Number,
        &[
            ("sum by (lane) (sandur_store_lane_under_way{$i})", "{{lane}}"),
            ("sum by (lane) (sandur_store_lane_waiting{$i})", "{{lane}}, waiting"),
        ],
    ),
    graph(
        "Hedged requests",
        "Second requests for slow reads, by outcome.",
        PerSecond,
        &[("sum by (outcome) (rate(sandur_store_hedges_total{$i}[$r]))", "{{outcome}}")],
    ),
    graph(
        "Ranges per read",
        "Ranges of a block that are joined into one request.",
        Number,
        &[(
            "sum(rate(sandur_store_ranges_wanted_total{$i}[$r])) / \
             sum(rate(sandur_store_ranges_read_total{$i}[$r]))",
            "",
        )],
    ),
    graph(
        "Blocks",
        "Blocks that exist, and removed ones that are not deleted yet.",
        Number,
        &[
            ("max(sandur_catalog_blocks{$i})", "blocks"),
            ("max(sandur_catalog_removed_blocks{$i})", "removed"),
        ],
    ),
    graph(
        "Commits",
        "Transactions of the catalog, and numbers that another process had taken.",
        PerSecond,
        &[
            ("sum(rate(sandur_catalog_commits_total{$i}[$r]))", "commits"),
            ("sum(rate(sandur_catalog_commit_conflicts_total{$i}[$r]))", "conflicts"),
            ("sum(rate(sandur_catalog_commits_failed_total{$i}[$r]))", "failures"),
        ],
    ),
    graph(
        "Age of the view",
        "Time since the catalog was last read.",
        Seconds,
        &[("max by (instance) (sandur_engine_view_age_seconds{$i})", "{{instance}}")],
    ),
    graph(
        "Deleted objects",
        "Objects that garbage collection deleted.",
        PerSecond,
        &[("sum(rate(sandur_catalog_gc_deleted_objects_total{$i}[$r]))", "")],
    ),
];

/// Seconds of 30 days.
macro_rules! per_month {
    ($query:literal) => {
        concat!("2592000 * ", $query)
    };
}

const COST: &[Panel] = &[
    stat(
        "Requests, per month",
        "Cost of 30 days at the rate of the last hour.",
        Dollars,
        &[("sum(sandur_store_cost_dollars_per_month{$i})", "")],
    ),
    stat(
        "Requests, since the start",
        "By the table of prices.",
        Dollars,
        &[("sum(sandur_store_cost_dollars_total{$i})", "")],
    ),
    stat(
        "Requests that cost most",
        "Number of requests of 30 days that write or list.",
        Number,
        &[(per_month!("sum(rate(sandur_store_requests_total{$i,operation=~\"put|list\"}[$r]))"), "")],
    ),
    stat(
        "Lookups that cost nothing",
        "Parts of blocks that the cache had.",
        Fraction,
        &[(
            "sum(rate(sandur_cache_lookups_total{$i,tier!=\"miss\"}[$r])) / \
             sum(rate(sandur_cache_lookups_total{$i}[$r]))",
            "",
        )],
    ),
    graph(
        "Cost by purpose",
        "Dollars per 30 days at the present rate.",
        Dollars,
        &[(per_month!("sum by (class) (rate(sandur_store_cost_dollars_total{$i}[$r]))"), "{{class}}")],
    ),
    graph(
        "Cost by operation",
        "Dollars per 30 days at the present rate.",
        Dollars,
        &[(
            per_month!("sum by (operation) (rate(sandur_store_cost_dollars_total{$i}[$r]))"),
            "{{operation}}",
        )],
    ),
    graph(
        "Cost by process",
        "Dollars per 30 days at the rate of the last hour.",
        Dollars,
        &[("sum by (instance) (sandur_store_cost_dollars_per_month{$i})", "{{instance}}")],
    ),
    graph(
        "Bytes that are written",
        "By flushes and by the WAL; the bucket bills what is stored.",
        BytesPerSecond,
        &[
            ("sum(rate(sandur_engine_block_bytes_total{$i}[$r]))", "blocks of flushes"),
            ("sum(rate(sandur_engine_wal_bytes_total{$i}[$r]))", "WAL"),
        ],
    ),
];

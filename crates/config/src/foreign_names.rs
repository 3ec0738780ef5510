//! The table of foreign names of options: the flags and keys of Loki, Prometheus, VictoriaMetrics and
//! go-carbon that occur in most installations, and names that users guess.
//!
//! Our keys in notes are in braces; they are shown as a flag or as a key, like the name that was given. A
//! test checks that each of them exists.

/// A foreign name of an option.
pub struct Foreign {
    /// The name; with `.*` at the end all names below it without an entry of their own.
    pub theirs: &'static str,
    /// Our key; empty if no option has this meaning.
    pub ours: &'static str,
    /// The difference, or why there is no option.
    pub note: &'static str,
}

const fn name(theirs: &'static str, ours: &'static str, note: &'static str) -> Foreign {
    Foreign { theirs, ours, note }
}

/// A name that has exactly the meaning of ours.
const fn same(theirs: &'static str, ours: &'static str) -> Foreign {
    name(theirs, ours, "")
}

/// A name without a counterpart, with the reason.
const fn none(theirs: &'static str, note: &'static str) -> Foreign {
    name(theirs, "", note)
}

const BUCKET: &str = "a bucket is one URL: s3://BUCKET/PREFIX?region=..&endpoint=..";
const ADDRESS: &str = "an address with its port, such as 0.0.0.0:3100";
const PLACE: &str = "a directory, or the URL of a bucket";
const AGE: &str = "how long lines are kept, such as 30d; 0: never deleted";
const NO_INDEX: &str = "not needed: blocks are self-describing, there is no schema or index to configure";
const NO_RING: &str = "not needed: processes coordinate in the bucket, any number can share one";
const NO_PART: &str = "there is no such component: each process ingests, stores, merges and answers queries";
const NO_RULES: &str = "there is none: rules are not evaluated";
const NO_STREAM_LIMIT: &str =
    "there is none: there is no limit per stream; {limits.ingestion_rate} is per tenant";
const NO_FILES: &str = "not needed: there is no file for each metric";
const BY_AGE: &str = "there is none: retention is by age, {limits.retention_period}";
const WAL: &str = "not needed: the write-ahead log is always on and is part of the store";
const FLUSHES: &str =
    "there is none of this name: {flush.max_age} and {flush.max_bytes} determine when memory is flushed";
const OLDEST: &str = "age of the oldest row in memory, for all streams together";
const POINTS: &str = "an address with its port, such as 0.0.0.0:2003";
const TLS: &str = "the other options are {tls.key_file}, {tls.client_ca_file} and {tls.client_auth}";
const MEMORY: &str = "such as 2GiB; caches get a share of it";
const RATE: &str = "a size per second, such as 4MiB";
const QUERIES: &str =
    "there is no such component: each process answers queries; {query.max_concurrent} limits them";
const OVERRIDES: &str = "TOML with a table [overrides.NAME] per tenant, read every 10 s";

/// Flags and keys of Loki, Prometheus and VictoriaMetrics.
pub static OF_SERVERS: &[Foreign] = &[
    // the process
    name("config.file", "config", "a TOML file; a Prometheus configuration belongs in {scrape_config}"),
    none("config.expand_env", "not needed: every option is also an environment variable, SANDUR_.."),
    none("target", "not needed: each process does everything"),
    none(
        "verify_config",
        "there is none: the server refuses to start with an invalid file and reports the line",
    ),
    none("print_config_stderr", "there is none: /config shows the effective configuration"),
    none(
        "enable_feature",
        "not needed: experimental PromQL, native histograms and exemplars are always enabled",
    ),
    none("reporting.*", "not needed: nothing is reported"),
    none("analytics.*", "not needed: nothing is reported"),
    name("runtime_config.*", "limits_file", OVERRIDES),
    name("limits_config.per_tenant_override_config", "limits_file", OVERRIDES),
    name("auth_enabled", "auth.require_tenant", "credentials are in {auth.file}"),
    name("auth.enabled", "auth.require_tenant", "credentials are in {auth.file}"),
    // listeners
    name("server.http_listen_port", "listen", ADDRESS),
    name("server.http_listen_address", "listen", ADDRESS),
    none("server.grpc_listen_port", "not needed: processes do not call each other"),
    none("server.grpc_listen_address", "not needed: processes do not call each other"),
    name("server.grpc_server_max_recv_msg_size", "limits.max_body_size", "size of a request body as sent"),
    same("server.log_level", "log.level"),
    same("server.log_format", "log.format"),
    name("server.http_server_read_timeout", "http.body_idle_timeout", "maximum pause of a client that sends"),
    name(
        "server.http_server_write_timeout",
        "http.write_idle_timeout",
        "maximum pause of a client that reads",
    ),
    name("server.http_tls_config.*", "tls.cert_file", TLS),
    name("web.listen_address", "listen", ADDRESS),
    none("web.enable_lifecycle", "not needed: /flush and /ingester/shutdown are always served"),
    none(
        "web.enable_admin_api",
        "not needed: deletes are enabled unless {limits.deletion_mode} disables them",
    ),
    none("web.enable_remote_write_receiver", "not needed: remote write is always accepted, at /api/v1/write"),
    none(
        "web.enable_otlp_receiver",
        "not needed: OTLP is always accepted, at /otlp/v1/metrics and /otlp/v1/logs",
    ),
    name("web.config.file", "tls.cert_file", "for TLS; users are in {auth.file}"),
    none("web.external_url", "not needed: the server generates no links to itself"),
    none("web.route_prefix", "there is none: paths have no prefix; a proxy can strip one"),
    name("httplistenaddr", "listen", ADDRESS),
    name("graphitelistenaddr", "carbon.listen", POINTS),
    name("tlscertfile", "tls.cert_file", TLS),
    same("loggerlevel", "log.level"),
    name("memory.allowedbytes", "memory_limit", MEMORY),
    name("memory.allowedpercent", "memory_limit", MEMORY),
    // where data is stored
    name("common.path_prefix", "store", "all data is stored in one place"),
    name("common.storage.s3.*", "store", BUCKET),
    name("common.storage.*", "store", PLACE),
    none("common.replication_factor", "not needed: an acknowledged line is in the store"),
    none("common.instance_addr", NO_RING),
    none("common.ring.*", NO_RING),
    name("storage_config.aws.*", "store", BUCKET),
    none("storage_config.boltdb_shipper.*", NO_INDEX),
    none("storage_config.tsdb_shipper.*", NO_INDEX),
    name("storage_config.*", "store", PLACE),
    name("s3.*", "store", BUCKET),
    name("blocks_storage.*", "store", PLACE),
    none("chunk_store_config.*", NO_INDEX),
    none("schema_config.*", NO_INDEX),
    name("table_manager.retention_period", "limits.retention_period", AGE),
    none("table_manager.*", NO_INDEX),
    name("storage.tsdb.path", "store", PLACE),
    none("storage.tsdb.retention.size", BY_AGE),
    none("storage.tsdb.retention.percentage", BY_AGE),
    name("storage.tsdb.retention.time", "limits.retention_period", AGE),
    name("storage.tsdb.retention", "limits.retention_period", AGE),
    none("storage.tsdb.wal_compression", WAL),
    name(
        "storage.tsdb.out_of_order_time_window",
        "limits.metrics.out_of_order_time_window",
        "samples older than this are refused; 0 accepts any age; samples may arrive in any order",
    ),
    none(
        "storage.tsdb.*",
        "there is none of this name: data is configured by {store} and {limits.retention_period}",
    ),
    name("storagedatapath", "store", PLACE),
    name("retentionperiod", "limits.retention_period", AGE),
    name(
        "retentionfilter",
        "limits.metrics.retention_series",
        "rules with selector and period, such as {env=\"dev\"} and 7d",
    ),
    name("promscrape.config", "scrape_config", "a Prometheus configuration"),
    none(
        "dedup.minscrapeinterval",
        "there is none: only identical samples with the same time are stored once",
    ),
    // ingestion
    name("distributor.ingestion_rate_limit_mb", "limits.ingestion_rate", RATE),
    none("distributor.ring.*", NO_RING),
    none("distributor.*", NO_PART),
    name("limits_config.ingestion_rate_mb", "limits.ingestion_rate", RATE),
    name("limits_config.ingestion_burst_size_mb", "limits.ingestion_burst", "a size, such as 6MiB"),
    none("limits_config.per_stream_rate_limit", NO_STREAM_LIMIT),
    none("limits_config.per_stream_rate_limit_burst", NO_STREAM_LIMIT),
    none(
        "limits_config.max_global_streams_per_user",
        "there is none for streams of logs; {limits.metrics.max_global_series_per_user} is for series of \
         metrics",
    ),
    name("ingester.chunk_idle_period", "flush.max_age", OLDEST),
    name("ingester.max_chunk_age", "flush.max_age", OLDEST),
    name("ingester.chunk_target_size", "flush.max_bytes", "bytes in memory, for all streams together"),
    none("ingester.wal_dir", WAL),
    none("ingester.wal.*", WAL),
    none("ingester.lifecycler.*", NO_RING),
    none("ingester.*", FLUSHES),
    none("memberlist.*", NO_RING),
    name("limits_config.reject_old_samples", "limits.reject_old_samples_max_age", "0 accepts any age"),
    same("limits_config.max_entries_limit", "limits.max_entries_limit_per_query"),
    none("limits_config.allow_structured_metadata", "not needed: it is always allowed"),
    // queries
    none("limits_config.max_cache_freshness_per_query", "not needed: cached results are never out of date"),
    none("limits.max_cache_freshness_per_query", "not needed: cached results are never out of date"),
    none("limits_config.volume_enabled", "not needed: it is always on"),
    same("querier.max_concurrent", "query.max_concurrent"),
    same("querier.multi_tenant_queries_enabled", "query.multi_tenant_queries_enabled"),
    same("querier.align_querier_with_step", "limits.align_queries_with_step"),
    none("querier.*", QUERIES),
    name("query_range.results_cache.*", "query.cache_results", "results are cached in memory"),
    same("query_range.align_queries_with_step", "limits.align_queries_with_step"),
    none(
        "query_range.*",
        "there is none of this name; {query.cache_results} and {limits.split_queries_by_interval}",
    ),
    same("query_scheduler.max_outstanding_requests_per_tenant", "query.max_queued"),
    none("query_scheduler.*", QUERIES),
    same("frontend.max_outstanding_per_tenant", "query.max_queued"),
    same("frontend.log_queries_longer_than", "query.slow_threshold"),
    none("frontend.*", QUERIES),
    same("query_frontend.align_queries_with_step", "limits.align_queries_with_step"),
    same("query.max_concurrency", "query.max_concurrent"),
    same("search.maxconcurrentrequests", "query.max_concurrent"),
    name("search.maxqueryduration", "query.timeout", "of PromQL; for logs it is {limits.query_timeout}"),
    none("rules.*", NO_RULES),
    none("alertmanager.*", NO_RULES),
    none("ruler.*", NO_RULES),
    // compaction and retention
    name("compactor.retention_enabled", "limits.retention_period", AGE),
    same("compactor.compaction_interval", "compaction.interval"),
    same("compactor.retention_delete_delay", "retention.delete_delay"),
    same("compactor.delete_request_cancel_period", "compaction.delete_request_cancel_period"),
    none("compactor.delete_request_store", "not needed: delete requests are in the catalog of the store"),
    none("compactor.working_directory", "not needed: blocks are merged in memory"),
    none("compactor.*", "there is none of this name: every process merges, every {compaction.interval}"),
];

/// Keys of go-carbon's file, and names that users guess.
pub static OF_CARBON_AND_PEOPLE: &[Foreign] = &[
    none("daemon", "there is none: the process stays in the foreground, as service managers expect"),
    none("pidfile", "there is none: the process stays in the foreground, as service managers expect"),
    same("common.max_cpu", "cpu_threads"),
    name("whisper.data_dir", "store", "a directory or a bucket; `sandur import whisper` imports files"),
    same("whisper.schemas_file", "graphite.schemas"),
    same("whisper.aggregation_file", "graphite.aggregation"),
    none("whisper.*", NO_FILES),
    name("cache.max_size", "memory_limit", MEMORY),
    none("cache.write_strategy", NO_FILES),
    name("tcp.*", "carbon.listen", POINTS),
    name("udp.*", "carbon.listen", "TCP and UDP share one address"),
    name("pickle.*", "carbon.pickle_listen", "an address with its port, such as 0.0.0.0:2004"),
    name("receiver.protobuf.*", "carbon.protobuf_listen", "an address with its port"),
    name("carbonserver.*", "listen", "carbonserver's API is served there too"),
    // names that users guess
    name("retention", "limits.retention_period", AGE),
    name("retention_period", "limits.retention_period", AGE),
    name("ttl", "limits.retention_period", AGE),
    name("port", "listen", ADDRESS),
    name("p", "listen", ADDRESS),
    name("host", "listen", ADDRESS),
    name("bind", "listen", ADDRESS),
    name("address", "listen", ADDRESS),
    name("data", "store", PLACE),
    name("data_dir", "store", PLACE),
    name("path", "store", PLACE),
    name("bucket", "store", BUCKET),
    name("memory", "memory_limit", MEMORY),
    name("max_memory", "memory_limit", MEMORY),
    same("threads", "cpu_threads"),
    name("verbose", "log.level", "such as debug"),
    name("debug", "log.level", "such as debug"),
];

//! The table of foreign names of options: flags and keys of Loki, Prometheus, Mimir, VictoriaMetrics and
//! go-carbon, and names that users guess.
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
const GCS: &str = "a bucket is one URL: gs://BUCKET/PREFIX";
const AZURE: &str = "a container is one URL: az://CONTAINER/PREFIX";
const SECRETS: &str = "not needed: credentials come from the usual variables of the provider";
const ADDRESS: &str = "an address with its port, such as 0.0.0.0:3100";
const PLACE: &str = "a directory, or the URL of a bucket";
const AGE: &str = "how long lines are kept, such as 30d; 0: never deleted";
const ANY_AGE: &str = "0 accepts any age";
const NO_INDEX: &str = "not needed: blocks are self-describing, there is no schema or index to configure";
const NO_RING: &str = "not needed: processes coordinate in the bucket, any number can share one";
const NO_CALLS: &str = "not needed: processes do not call each other";
const NO_PART: &str = "there is no such component: each process ingests, stores, merges and answers queries";
const NO_RULES: &str = "there is none: rules are not evaluated";
const NO_PAGES: &str = "there is none: no web pages are served";
const NO_STREAM_LIMIT: &str =
    "there is none: there is no limit per stream; {limits.ingestion_rate} is per tenant";
const NO_STREAMS_MAX: &str = "there is none for streams of logs; \
                              {limits.metrics.max_global_series_per_user} is for series of metrics";
const NO_PREFIX: &str = "there is none: paths have no prefix; a proxy can strip one";
const NO_TRACES: &str = "there is none: no traces are sent";
const NO_REPORTS: &str = "not needed: nothing is reported";
const NO_FILES: &str = "not needed: there is no file for each metric";
const FILTERS: &str = "not needed: every block has filters";
const SHARDS: &str = "not needed: queries are split automatically; {limits.max_query_parallelism} limits \
    the parts that run in parallel";
const WAL: &str = "not needed: the write-ahead log is always on and is part of the store";
const BLOCKS: &str = "not needed: {flush.max_age} and {flush.max_bytes} determine when a block is written, \
    and merges create large ones";
const FLUSHES: &str =
    "there is none of this name: {flush.max_age} and {flush.max_bytes} determine when memory is flushed";
const MEMORY: &str = "such as 2GiB; caches get a share of it";
const RULES_OF_RETENTION: &str = "rules with selector and period, such as {env=\"dev\"} and 7d";
const POINTS: &str = "an address with its port, such as 0.0.0.0:2003";
const CARBONSERVER: &str = "carbonserver's API is served there too";
const TLS: &str = "the other options are {tls.key_file}, {tls.client_ca_file} and {tls.client_auth}";
const SWITCHED: &str = "not needed: experimental PromQL, native histograms and exemplars are always enabled";
const RATE: &str = "a size per second, such as 4MiB";
const BURST: &str = "a size, such as 6MiB";
const OVERRIDES: &str = "TOML with a table [overrides.NAME] per tenant";
const QUERIES: &str =
    "there is no such component: each process answers queries; {query.max_concurrent} limits them";
const BOTH: &str = "for streams of logs; for series it is {limits.metrics.max_label_names_per_series}";

/// Flags and keys of Loki and Mimir, and flags of Prometheus and VictoriaMetrics.
pub static OF_SERVERS: &[Foreign] = &[
    // the process
    name("config.file", "config", "a TOML file; a Prometheus configuration belongs in {scrape_config}"),
    none("config.expand_env", "not needed: every option is also an environment variable, SANDUR_.."),
    none("target", "not needed: each process does everything"),
    none("list_targets", "not needed: each process does everything"),
    none(
        "verify_config",
        "there is none: the server refuses to start with an invalid file and reports the line",
    ),
    none("print_config_stderr", "there is none: /config shows the effective configuration"),
    none("log_config_reverse_order", "there is none: /config shows the effective configuration"),
    none("enable_feature", SWITCHED),
    none("agent", "there is none: scraped and received data is stored here"),
    none("auto_gomemlimit", "not needed: the default of {memory_limit} is half of the memory"),
    none("auto_gomaxprocs", "not needed: the default of {cpu_threads} is the number of processors"),
    none("ballast_bytes", "not needed: {memory_limit} limits the whole process"),
    name("shutdown_delay", "http.drain_timeout", "time limit for running requests to finish"),
    none("tracing.*", NO_TRACES),
    none("reporting.*", NO_REPORTS),
    none("analytics.*", NO_REPORTS),
    none("usage_stats.*", NO_REPORTS),
    none("runtime_config.reload_period", "not needed: {limits_file} is read every 10 s"),
    name("runtime_config.file", "limits_file", OVERRIDES),
    name("runtime_config.*", "limits_file", "it is read every 10 s"),
    name("limits.per_user_override_config", "limits_file", OVERRIDES),
    name("limits_config.per_tenant_override_config", "limits_file", OVERRIDES),
    none("limits.per_user_override_period", "not needed: {limits_file} is read every 10 s"),
    none("limits_config.per_tenant_override_period", "not needed: {limits_file} is read every 10 s"),
    name("auth_enabled", "auth.require_tenant", "credentials are in {auth.file}"),
    name("auth.enabled", "auth.require_tenant", "credentials are in {auth.file}"),
    name("auth.multitenancy_enabled", "auth.require_tenant", "credentials are in {auth.file}"),
    // listeners
    name("server.http_listen_port", "listen", ADDRESS),
    name("server.http_listen_address", "listen", ADDRESS),
    none("server.http_listen_network", "not needed: the address says whether it is IPv4 or IPv6"),
    none("server.grpc_listen_port", NO_CALLS),
    none("server.grpc_listen_address", NO_CALLS),
    none("server.grpc_listen_network", NO_CALLS),
    name("server.grpc_server_max_recv_msg_size", "limits.max_body_size", "size of a request body as sent"),
    name("server.grpc_max_recv_msg_size_bytes", "limits.max_body_size", "size of a request body as sent"),
    same("server.log_level", "log.level"),
    same("server.log_format", "log.format"),
    same("server.http_listen_conn_limit", "http.max_connections"),
    same("server.http_conn_limit", "http.max_connections"),
    same("server.http_server_idle_timeout", "http.idle_timeout"),
    same("server.http_idle_timeout", "http.idle_timeout"),
    same("server.http_server_read_header_timeout", "http.header_timeout"),
    same("server.http_read_header_timeout", "http.header_timeout"),
    name(
        "server.http_server_write_timeout",
        "http.write_idle_timeout",
        "maximum pause of a client that reads",
    ),
    name("server.http_write_timeout", "http.write_idle_timeout", "maximum pause of a client that reads"),
    name("server.http_server_read_timeout", "http.body_idle_timeout", "maximum pause of a client that sends"),
    name("server.http_read_timeout", "http.body_idle_timeout", "maximum pause of a client that sends"),
    same("server.graceful_shutdown_timeout", "http.drain_timeout"),
    name("server.http_tls_cert_path", "tls.cert_file", TLS),
    same("server.http_tls_key_path", "tls.key_file"),
    same("server.http_tls_ca_path", "tls.client_ca_file"),
    name("server.http_tls_client_auth", "tls.client_auth", "require or optional"),
    same("server.http_tls_config.key_file", "tls.key_file"),
    same("server.http_tls_config.client_ca_file", "tls.client_ca_file"),
    name("server.http_tls_config.client_auth_type", "tls.client_auth", "require or optional"),
    name("server.http_tls_config.*", "tls.cert_file", TLS),
    none("server.path_prefix", NO_PREFIX),
    none("server.http_path_prefix", NO_PREFIX),
    none("server.register_instrumentation", "not needed: /metrics is always served"),
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
    none("web.remote_write_receiver.*", "not needed: remote write 1.0 and 2.0 are always accepted"),
    name("web.config.file", "tls.cert_file", "for TLS; users are in {auth.file}"),
    name("web.read_timeout", "http.body_idle_timeout", "maximum pause of a client that sends"),
    same("web.max_connections", "http.max_connections"),
    none("web.external_url", "not needed: the server generates no links to itself"),
    none("web.route_prefix", NO_PREFIX),
    none("web.cors.origin", "there is none: pages of other origins may not read answers of this server"),
    none("web.console.*", NO_PAGES),
    none("web.user_assets", NO_PAGES),
    none("web.page_title", NO_PAGES),
    name("httplistenaddr", "listen", ADDRESS),
    name("graphitelistenaddr", "carbon.listen", POINTS),
    none("influxlistenaddr", "there is none: lines of InfluxDB are not accepted"),
    none("opentsdblistenaddr", "there is none: lines of OpenTSDB are not accepted"),
    name("httpauth.username", "auth.file", "users with their tenants and scopes"),
    name("httpauth.password", "auth.file", "users with their tenants and scopes"),
    name("tlscertfile", "tls.cert_file", TLS),
    same("tlskeyfile", "tls.key_file"),
    same("http.maxgracefulshutdownduration", "http.drain_timeout"),
    same("loggerlevel", "log.level"),
    same("loggerformat", "log.format"),
    name("memory.allowedbytes", "memory_limit", MEMORY),
    name("memory.allowedpercent", "memory_limit", "a size, such as 2GiB; the default is half of the memory"),
    // where data is stored
    name("common.path_prefix", "store", "all data is stored in one place"),
    name("common.storage.filesystem.*", "store", "a directory"),
    none("common.storage.s3.access_key_id", SECRETS),
    none("common.storage.s3.secret_access_key", SECRETS),
    name("common.storage.s3.*", "store", BUCKET),
    name("common.storage.gcs.*", "store", GCS),
    name("common.storage.azure.*", "store", AZURE),
    name("common.storage.*", "store", PLACE),
    none("common.replication_factor", "not needed: an acknowledged line is in the store"),
    none("common.compactor_address", NO_CALLS),
    none("common.compactor_grpc_address", NO_CALLS),
    none("common.instance_addr", NO_RING),
    none("common.instance_interface_names", NO_RING),
    none("common.ring.*", NO_RING),
    name("storage_config.filesystem.*", "store", "a directory"),
    name("storage_config.aws.*", "store", BUCKET),
    name("storage_config.gcs.*", "store", GCS),
    name("storage_config.azure.*", "store", AZURE),
    same("storage_config.max_parallel_get_chunk", "storage.max_concurrent_reads"),
    none("storage_config.boltdb_shipper.*", NO_INDEX),
    none("storage_config.tsdb_shipper.*", NO_INDEX),
    none("storage_config.index_queries_cache_config.*", NO_INDEX),
    name("storage_config.*", "store", PLACE),
    none("s3.access_key_id", SECRETS),
    none("s3.secret_access_key", SECRETS),
    name("s3.*", "store", BUCKET),
    name("gcs.*", "store", GCS),
    name("azure.*", "store", AZURE),
    name("local.chunk_directory", "store", "a directory"),
    name("blocks_storage.backend", "store", PLACE),
    name("blocks_storage.s3.*", "store", BUCKET),
    name("blocks_storage.filesystem.*", "store", "a directory"),
    none("blocks_storage.*", NO_INDEX),
    same("store.max_parallel_get_chunk", "storage.max_concurrent_reads"),
    name("store.retention", "limits.retention_period", AGE),
    name("store.chunks_cache.*", "cache.dir", "parts of blocks are cached there"),
    none("store.*", NO_INDEX),
    name("chunk_store_config.chunk_cache_config.*", "cache.dir", "parts of blocks are cached there"),
    none("chunk_store_config.*", NO_INDEX),
    none("schema_config.*", NO_INDEX),
    none("schema_config_file", NO_INDEX),
    none("boltdb.*", NO_INDEX),
    none("tsdb.*", NO_INDEX),
    name("table_manager.retention_period", "limits.retention_period", AGE),
    none("table_manager.*", NO_INDEX),
    none("index_gateway.*", NO_INDEX),
    none("store_gateway.*", NO_PART),
    name("storage.tsdb.path", "store", PLACE),
    none("storage.tsdb.retention.size", "there is none: retention is by age, {limits.retention_period}"),
    none(
        "storage.tsdb.retention.percentage",
        "there is none: retention is by age, {limits.retention_period}",
    ),
    name("storage.tsdb.retention.time", "limits.retention_period", AGE),
    name("storage.tsdb.retention", "limits.retention_period", AGE),
    none("storage.tsdb.wal_compression", WAL),
    none("storage.tsdb.wal_compression_type", WAL),
    none(
        "storage.tsdb.wal_segment_size",
        "not needed: on a disk it is chosen automatically; for a bucket it is {wal.group_bytes}",
    ),
    none("storage.tsdb.min_block_duration", BLOCKS),
    none("storage.tsdb.max_block_duration", BLOCKS),
    none("storage.tsdb.no_lockfile", "not needed: there is no lock to disable"),
    name(
        "storage.tsdb.out_of_order_time_window",
        "limits.metrics.out_of_order_time_window",
        "samples older than this are refused; 0 accepts any age; samples may arrive in any order",
    ),
    none(
        "storage.tsdb.*",
        "there is none of this name: data is configured by {store} and {limits.retention_period}",
    ),
    none("storage.agent.*", "there is none: scraped and received data is stored here"),
    none(
        "storage.remote.read_sample_limit",
        "there is none for remote read; {query.max_samples} is for queries",
    ),
    none("storage.remote.*", "there is none: there is no remote storage"),
    name("storagedatapath", "store", PLACE),
    name("retentionperiod", "limits.retention_period", AGE),
    name("retentionfilter", "limits.metrics.retention_series", RULES_OF_RETENTION),
    name("promscrape.config", "scrape_config", "a Prometheus configuration"),
    none(
        "dedup.minscrapeinterval",
        "there is none: only identical samples with the same time are stored once",
    ),
    // ingestion
    name("distributor.ingestion_rate_limit_mb", "limits.ingestion_rate", RATE),
    name("distributor.ingestion_burst_size_mb", "limits.ingestion_burst", BURST),
    name("distributor.ingestion_rate_limit", "limits.metrics.ingestion_rate", "samples per second"),
    name("distributor.ingestion_burst_size", "limits.metrics.ingestion_burst_size", "samples"),
    name("distributor.max_recv_msg_size", "limits.max_body_size", "size of a request body as sent"),
    none("distributor.ring.*", NO_RING),
    none("distributor.*", NO_PART),
    name("limits_config.ingestion_rate_mb", "limits.ingestion_rate", RATE),
    name("limits_config.ingestion_burst_size_mb", "limits.ingestion_burst", BURST),
    none("limits_config.per_stream_rate_limit", NO_STREAM_LIMIT),
    none("limits_config.per_stream_rate_limit_burst", NO_STREAM_LIMIT),
    none("limits_config.max_streams_per_user", NO_STREAMS_MAX),
    none("limits_config.max_local_streams_per_user", NO_STREAMS_MAX),
    none("limits_config.max_global_streams_per_user", NO_STREAMS_MAX),
    none("ingester.per_stream_rate_limit", NO_STREAM_LIMIT),
    none("ingester.per_stream_rate_limit_burst", NO_STREAM_LIMIT),
    none("ingester.max_streams_per_user", NO_STREAMS_MAX),
    none("ingester.max_global_streams_per_user", NO_STREAMS_MAX),
    same("ingester.max_global_series_per_user", "limits.metrics.max_global_series_per_user"),
    name(
        "ingester.out_of_order_time_window",
        "limits.metrics.out_of_order_time_window",
        "samples older than this are refused; 0 accepts any age; samples may arrive in any order",
    ),
    name(
        "ingester.chunks_idle_period",
        "flush.max_age",
        "age of the oldest row in memory, for all streams together",
    ),
    name(
        "ingester.chunk_idle_period",
        "flush.max_age",
        "age of the oldest row in memory, for all streams together",
    ),
    name(
        "ingester.max_chunk_age",
        "flush.max_age",
        "age of the oldest row in memory, for all streams together",
    ),
    name("ingester.chunk_target_size", "flush.max_bytes", "bytes in memory, for all streams together"),
    none("ingester.wal_dir", WAL),
    none("ingester.wal_enabled", WAL),
    none("ingester.wal_replay_memory_ceiling", "not needed: {memory_limit} limits it"),
    none("ingester.checkpoint_duration", WAL),
    none("ingester.flush_on_shutdown", WAL),
    none("ingester.wal.*", WAL),
    none("ingester.lifecycler.*", NO_RING),
    none("ingester.ring.*", NO_RING),
    none("ingester.*", FLUSHES),
    none("ingester_client.*", NO_CALLS),
    none("memberlist.*", NO_RING),
    none("ring.*", NO_RING),
    none("consul.*", NO_RING),
    none("etcd.*", NO_RING),
    name("validation.reject_old_samples.max_age", "limits.reject_old_samples_max_age", ANY_AGE),
    name("validation.reject_old_samples", "limits.reject_old_samples_max_age", ANY_AGE),
    name("limits_config.reject_old_samples", "limits.reject_old_samples_max_age", ANY_AGE),
    same("validation.create_grace_period", "limits.creation_grace_period"),
    same("validation.max_length_label_name", "limits.max_label_name_length"),
    same("validation.max_length_label_value", "limits.max_label_value_length"),
    name("validation.max_label_names_per_series", "limits.max_label_names_per_series", BOTH),
    same("validation.max_native_histogram_buckets", "limits.metrics.max_native_histogram_buckets"),
    same("validation.max_entries_limit", "limits.max_entries_limit_per_query"),
    same("limits_config.max_entries_limit", "limits.max_entries_limit_per_query"),
    none("validation.increment_duplicate_timestamps", "there is none: times are stored as they are sent"),
    none("limits_config.increment_duplicate_timestamp", "there is none: times are stored as they are sent"),
    none("validation.allow_structured_metadata", "not needed: it is always allowed"),
    none("limits_config.allow_structured_metadata", "not needed: it is always allowed"),
    none("shard_streams.*", "not needed: streams may have any rate"),
    none("limits_config.shard_streams.*", "not needed: streams may have any rate"),
    same("maxlabelspertimeseries", "limits.metrics.max_label_names_per_series"),
    // queries
    name(
        "limits_config.max_cache_freshness_per_query",
        "limits.max_cache_freshness_per_query",
        "it has no effect: cached results are never out of date",
    ),
    name(
        "frontend.max_cache_freshness",
        "limits.max_cache_freshness_per_query",
        "it has no effect: cached results are never out of date",
    ),
    none("limits.volume_enabled", "not needed: it is always on"),
    none("limits_config.volume_enabled", "not needed: it is always on"),
    same("querier.max_concurrent", "query.max_concurrent"),
    same("querier.multi_tenant_queries_enabled", "query.multi_tenant_queries_enabled"),
    name("querier.timeout", "query.timeout", "of PromQL; for logs it is {limits.query_timeout}"),
    same("querier.max_samples", "query.max_samples"),
    same("querier.lookback_delta", "query.lookback_delta"),
    same("querier.max_streams_matcher_per_query", "limits.max_streams_matchers_per_query"),
    same("querier.max_outstanding_requests_per_tenant", "query.max_queued"),
    name("querier.cache_results", "query.cache_results", "results are cached in memory"),
    none("querier.parallelise_shardable_queries", SHARDS),
    none("querier.frontend_address", NO_CALLS),
    none("querier.scheduler_address", NO_CALLS),
    none("querier.query_ingesters_within", "not needed: queries always read memory and blocks"),
    none("querier.query_store_only", "not needed: queries always read memory and blocks"),
    none("querier.query_ingester_only", "not needed: queries always read memory and blocks"),
    none("querier.*", QUERIES),
    none("query_range.parallelise_shardable_queries", SHARDS),
    same("query_range.cache_results", "query.cache_results"),
    name("query_range.results_cache.*", "query.cache_results", "results are cached in memory"),
    none(
        "query_range.*",
        "there is none of this name; {query.cache_results} and {limits.split_queries_by_interval}",
    ),
    same("query_scheduler.max_outstanding_requests_per_tenant", "query.max_queued"),
    none("query_scheduler.*", QUERIES),
    same("frontend.max_outstanding_per_tenant", "query.max_queued"),
    same("frontend.log_queries_longer_than", "query.slow_threshold"),
    none("frontend.*", QUERIES),
    none("query_frontend.*", QUERIES),
    none("frontend_worker.*", QUERIES),
    same("query.max_concurrency", "query.max_concurrent"),
    same("search.maxconcurrentrequests", "query.max_concurrent"),
    name("search.maxqueryduration", "query.timeout", "of PromQL; for logs it is {limits.query_timeout}"),
    same("search.maxsamplesperquery", "query.max_samples"),
    none("rules.*", NO_RULES),
    none("alertmanager.*", NO_RULES),
    none("ruler.*", NO_RULES),
    none("ruler_storage.*", NO_RULES),
    none("pattern_ingester.*", "not needed: patterns are computed when they are requested"),
    none("bloom_build.*", FILTERS),
    none("bloom_gateway.*", FILTERS),
    // compaction and retention
    name("compactor.retention_enabled", "limits.retention_period", AGE),
    name("compactor.blocks_retention_period", "limits.retention_period", AGE),
    name("limits_config.compactor_blocks_retention_period", "limits.retention_period", AGE),
    name("limits.compactor_blocks_retention_period", "limits.retention_period", AGE),
    same("compactor.compaction_interval", "compaction.interval"),
    name(
        "compactor.apply_retention_interval",
        "compaction.interval",
        "merges and retention share one interval",
    ),
    same("compactor.retention_delete_delay", "retention.delete_delay"),
    same("compactor.deletion_delay", "retention.delete_delay"),
    same("compactor.delete_max_interval", "compaction.delete_max_interval"),
    same("compactor.delete_request_cancel_period", "compaction.delete_request_cancel_period"),
    same("compactor.deletion_mode", "limits.deletion_mode"),
    none(
        "compactor.delete_request_store",
        "not needed: delete requests are stored in the catalog of the store",
    ),
    none("compactor.working_directory", "not needed: blocks are merged in memory"),
    none("compactor.data_dir", "not needed: blocks are merged in memory"),
    none("compactor.ring.*", NO_RING),
    none("compactor.*", "there is none of this name: every process merges, every {compaction.interval}"),
];

/// Keys of go-carbon's file, and names that users guess.
pub static OF_CARBON_AND_PEOPLE: &[Foreign] = &[
    none("daemon", "there is none: the process stays in the foreground, as service managers expect"),
    none("pidfile", "there is none: the process stays in the foreground, as service managers expect"),
    none(
        "check_config",
        "there is none: the server refuses to start with an invalid file and reports the line",
    ),
    none("common.graph_prefix", "not needed: metrics of the server are at /metrics"),
    none("common.metric_interval", "not needed: metrics of the server are at /metrics"),
    none("common.metric_endpoint", "not needed: metrics of the server are at /metrics"),
    none("common.user", "there is none: the process runs as the user who starts it"),
    same("common.max_cpu", "cpu_threads"),
    name("whisper.data_dir", "store", "a directory or a bucket; `sandur import whisper` imports files"),
    same("whisper.schemas_file", "graphite.schemas"),
    same("whisper.aggregation_file", "graphite.aggregation"),
    none("whisper.*", NO_FILES),
    name("cache.max_size", "memory_limit", "such as 2GiB"),
    none("cache.write_strategy", NO_FILES),
    name("tcp.listen", "carbon.listen", POINTS),
    name("tcp.enabled", "carbon.listen", POINTS),
    none("tcp.compression", "not needed: gzip, lz4 and zstd are recognised"),
    none("tcp.*", "there is none of this name: {carbon.listen} accepts points over TCP and UDP"),
    name("udp.listen", "carbon.listen", "TCP and UDP share one address"),
    name("udp.enabled", "carbon.listen", "TCP and UDP share one address"),
    none("udp.*", "there is none of this name: {carbon.listen} accepts points over TCP and UDP"),
    same("pickle.max_message_size", "carbon.max_frame_bytes"),
    name("pickle.listen", "carbon.pickle_listen", "an address with its port, such as 0.0.0.0:2004"),
    name("pickle.enabled", "carbon.pickle_listen", "an address with its port, such as 0.0.0.0:2004"),
    none("pickle.*", "there is none of this name: {carbon.pickle_listen} accepts pickles"),
    name("receiver.protobuf.*", "carbon.protobuf_listen", "an address with its port"),
    none("carbonlink.*", "not needed: received points can be queried immediately"),
    name("carbonserver.listen", "listen", CARBONSERVER),
    name("carbonserver.enabled", "listen", CARBONSERVER),
    none(
        "carbonserver.*",
        "not needed: carbonserver's API is served at {listen}, with the limits of all queries",
    ),
    name("grpc.listen", "otlp_grpc_listen", "carbonserver's service is served there, and at {listen}"),
    none("tags.*", "not needed: tags are part of the store"),
    none("dump.*", "not needed: acknowledged data survives a restart"),
    // names that users guess
    name("retention", "limits.retention_period", AGE),
    name("retention_period", "limits.retention_period", AGE),
    name("retention_time", "limits.retention_period", AGE),
    name("retention_days", "limits.retention_period", AGE),
    name("ttl", "limits.retention_period", AGE),
    name("port", "listen", ADDRESS),
    name("p", "listen", ADDRESS),
    name("host", "listen", ADDRESS),
    name("bind", "listen", ADDRESS),
    name("address", "listen", ADDRESS),
    name("listen_address", "listen", ADDRESS),
    name("http_listen_port", "listen", ADDRESS),
    name("data", "store", PLACE),
    name("data_dir", "store", PLACE),
    name("data_path", "store", PLACE),
    name("dir", "store", PLACE),
    name("path", "store", PLACE),
    name("storage_path", "store", PLACE),
    name("bucket", "store", BUCKET),
    name("s3_bucket", "store", BUCKET),
    name("memory", "memory_limit", "such as 2GiB"),
    name("max_memory", "memory_limit", "such as 2GiB"),
    name("mem_limit", "memory_limit", "such as 2GiB"),
    same("threads", "cpu_threads"),
    name("verbose", "log.level", "such as debug"),
    name("debug", "log.level", "such as debug"),
    same("loglevel", "log.level"),
];

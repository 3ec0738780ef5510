//! Names that options have in Loki, Prometheus, go-carbon or in people's heads, and what they are called
//! here.
//!
//! One table is for flags and for the keys of a YAML file: dashes and underlines are the same, and leading
//! dashes do not count. It serves messages alone; nothing is set by these names.

use super::limits_table::LIMITS;
use super::table::Named;

/// A name of others.
pub struct Foreign {
    /// The name, or with `.*` at its end all names below it.
    theirs: &'static str,
    /// The key of the option table; empty where nothing is needed.
    ours: &'static str,
    /// What is different.
    note: &'static str,
}

const fn name(theirs: &'static str, ours: &'static str, note: &'static str) -> Foreign {
    Foreign { theirs, ours, note }
}

const BUCKET: &str = "a bucket is one URL: s3://BUCKET/PREFIX?region=..&endpoint=..";
const ADDRESS: &str = "an address with its port, such as 0.0.0.0:3100";
const AGE: &str = "how long lines are kept, such as 30d; 0 is for ever";
const NO_INDEX: &str = "not needed: blocks describe themselves, there is no schema and no index to set up";
const NO_RING: &str = "not needed: processes meet in the bucket, any number can share one";
const NO_RULES: &str = "there is none: rules are not evaluated here";
const RULES_OF_RETENTION: &str = "rules with selector and period, such as {env=\"dev\"} and 7d";
const POINTS: &str = "an address with its port, such as 0.0.0.0:2003";
const NO_FILES: &str = "not needed: there is no file for each metric";
const WAL: &str = "the write-ahead log is always on and lies in the store";

/// The names, longer ones before their beginnings.
static NAMES: &[Foreign] = &[
    // flags of Loki and Prometheus
    name("config.file", "config", "a TOML file; docs/reference/options.md has the keys"),
    name("config.expand_env", "", "not needed: every option is also an environment variable, SANDUR_.."),
    name("target", "", "not needed: each process does everything"),
    name("storage.tsdb.path", "store", "a directory, or the URL of a bucket"),
    name("storage.tsdb.retention.size", "", "there is none: retention goes by age"),
    name("storage.tsdb.retention.time", "limits.retention_period", AGE),
    name("storage.tsdb.retention", "limits.retention_period", AGE),
    name("storage.tsdb.wal_compression", "", WAL),
    name("web.listen_address", "listen", ADDRESS),
    name("web.enable_lifecycle", "", "not needed: /flush and /ingester/shutdown are always there"),
    name("web.enable_admin_api", "", "not needed: deletes are on unless limits.deletion_mode says otherwise"),
    name("web.config.file", "auth.file", "who may ask what"),
    name("server.http_tls_config.*", "tls.cert_file", "and the other options of [tls]"),
    name("web.external_url", "", "not needed: nothing here writes links to itself"),
    name("query.max_concurrency", "query.max_concurrent", ""),
    name("store.retention", "limits.retention_period", AGE),
    name("retentionperiod", "limits.retention_period", AGE),
    name("retentionfilter", "limits.metrics.retention_series", RULES_OF_RETENTION),
    name("compactor.blocks_retention_period", "limits.retention_period", AGE),
    name("validation.reject_old_samples.max_age", "limits.reject_old_samples_max_age", "0 accepts any age"),
    name("validation.reject_old_samples", "limits.reject_old_samples_max_age", "0 accepts any age"),
    name("querier.query_timeout", "limits.query_timeout", ""),
    // keys of Loki's file
    name("auth_enabled", "auth.require_tenant", ""),
    name("auth.enabled", "auth.require_tenant", ""),
    name("server.http_listen_port", "listen", ADDRESS),
    name("server.http_listen_address", "listen", ADDRESS),
    name("server.grpc_listen_port", "", "not needed: processes do not call each other"),
    name("server.grpc_listen_address", "", "not needed: processes do not call each other"),
    name("server.log_level", "log.level", ""),
    name("server.log_format", "log.format", ""),
    name("server.http_server_idle_timeout", "http.idle_timeout", ""),
    name("server.http_server_write_timeout", "http.write_idle_timeout", ""),
    name("server.http_server_read_timeout", "http.body_idle_timeout", ""),
    name("server.graceful_shutdown_timeout", "http.drain_timeout", ""),
    name("common.path_prefix", "store", "everything lies in one place"),
    name("common.storage.filesystem.*", "store", "a directory"),
    name("common.storage.*", "store", BUCKET),
    name("common.replication_factor", "", "not needed: an acknowledged line is in the store"),
    name("common.ring.*", "", NO_RING),
    name("storage_config.filesystem.*", "store", "a directory"),
    name("storage_config.max_parallel_get_chunk", "storage.max_concurrent_reads", ""),
    name("storage_config.*", "store", BUCKET),
    name("schema_config.*", "", NO_INDEX),
    name("chunk_store_config.chunk_cache_config.*", "cache.dir", "pieces of blocks are kept there"),
    name("chunk_store_config.*", "", NO_INDEX),
    name("table_manager.retention_period", "limits.retention_period", AGE),
    name("table_manager.*", "", NO_INDEX),
    name("compactor.retention_enabled", "limits.retention_period", AGE),
    name("compactor.compaction_interval", "compaction.interval", ""),
    name("compactor.retention_delete_delay", "retention.delete_delay", ""),
    name("compactor.delete_max_interval", "compaction.delete_max_interval", ""),
    name("compactor.delete_request_cancel_period", "compaction.delete_request_cancel_period", ""),
    name("compactor.delete_request_store", "", "not needed: delete requests lie in the catalog of the store"),
    name("compactor.working_directory", "", "not needed: blocks are merged in memory"),
    name("compactor.*", "compaction.interval", "every process merges blocks"),
    name("ingester.chunk_idle_period", "flush.max_age", ""),
    name("ingester.max_chunk_age", "flush.max_age", ""),
    name("ingester.chunk_target_size", "flush.max_bytes", "bytes of all streams together"),
    name("ingester.wal.*", "", WAL),
    name("ingester.lifecycler.*", "", NO_RING),
    name("ingester.*", "flush.max_age", "rows in memory are flushed by age and size"),
    name("querier.max_concurrent", "query.max_concurrent", ""),
    name("querier.multi_tenant_queries_enabled", "query.multi_tenant_queries_enabled", ""),
    name("query_range.cache_results", "query.cache_results", ""),
    name("query_range.results_cache.*", "query.cache_results", "results are kept in memory"),
    name("query_scheduler.max_outstanding_requests_per_tenant", "query.max_queued", ""),
    name("frontend.max_outstanding_per_tenant", "query.max_queued", ""),
    name("frontend.log_queries_longer_than", "query.slow_threshold", ""),
    name("runtime_config.file", "limits_file", "TOML with a table [overrides.NAME] per tenant"),
    name("runtime_config.*", "limits_file", "it is read every 10 s"),
    name("limits_config.ingestion_rate_mb", "limits.ingestion_rate", "a size, such as 4MiB"),
    name("limits_config.ingestion_burst_size_mb", "limits.ingestion_burst", "a size, such as 6MiB"),
    name("limits_config.reject_old_samples", "limits.reject_old_samples_max_age", "0 accepts any age"),
    name("limits_config.compactor_blocks_retention_period", "limits.retention_period", AGE),
    name("limits.compactor_blocks_retention_period", "limits.retention_period", AGE),
    name("limits_config.per_tenant_override_config", "limits_file", ""),
    name("limits_config.max_entries_limit", "limits.max_entries_limit_per_query", ""),
    name("limits_config.max_cache_freshness_per_query", "", "not needed: the step cache is never stale"),
    name("limits_config.allow_structured_metadata", "", "not needed: it is always allowed"),
    name("limits_config.volume_enabled", "", "not needed: it is always on"),
    name("memberlist.*", "", NO_RING),
    name("distributor.*", "", NO_RING),
    name("index_gateway.*", "", NO_INDEX),
    name("ruler.*", "", NO_RULES),
    name("pattern_ingester.*", "", "not needed: patterns are found when they are asked for"),
    name("bloom_build.*", "", "not needed: every block has filters"),
    name("bloom_gateway.*", "", "not needed: every block has filters"),
    name("analytics.*", "", "not needed: nothing is reported to anybody"),
    // keys of go-carbon's file
    name("common.graph_prefix", "", "not needed: what it counts is at /metrics"),
    name("common.max_cpu", "cpu_threads", ""),
    name("whisper.data_dir", "store", "a directory or a bucket; `sandur import whisper` moves files over"),
    name("whisper.schemas_file", "graphite.schemas", ""),
    name("whisper.aggregation_file", "graphite.aggregation", ""),
    name("whisper.*", "", NO_FILES),
    name("cache.max_size", "memory_limit", "such as 2GiB"),
    name("tcp.listen", "carbon.listen", POINTS),
    name("tcp.*", "carbon.listen", "gzip, lz4 and zstd are recognised"),
    name("udp.listen", "carbon.listen", "TCP and UDP have one address"),
    name("udp.*", "carbon.listen", "TCP and UDP have one address"),
    name("pickle.max_message_size", "carbon.max_frame_bytes", ""),
    name("pickle.*", "carbon.pickle_listen", "an address with its port, such as 0.0.0.0:2004"),
    name("receiver.protobuf.*", "carbon.protobuf_listen", "an address with its port"),
    name("carbonlink.*", "", "not needed: what was read can be queried at once"),
    name("carbonserver.listen", "listen", "carbonserver's API is served with all others"),
    name("carbonserver.*", "listen", "carbonserver's API is served with all others"),
    name("grpc.listen", "otlp_grpc_listen", "carbonserver's service is served there, and on `listen`"),
    name("tags.*", "", "not needed: tags are part of the store"),
    // what people try
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
    name("data", "store", "a directory, or the URL of a bucket"),
    name("data_dir", "store", "a directory, or the URL of a bucket"),
    name("data_path", "store", "a directory, or the URL of a bucket"),
    name("dir", "store", "a directory, or the URL of a bucket"),
    name("path", "store", "a directory, or the URL of a bucket"),
    name("storage_path", "store", "a directory, or the URL of a bucket"),
    name("bucket", "store", BUCKET),
    name("s3_bucket", "store", BUCKET),
    name("s3.url", "store", BUCKET),
    name("s3.*", "store", BUCKET),
    name("memory", "memory_limit", "such as 2GiB"),
    name("max_memory", "memory_limit", "such as 2GiB"),
    name("mem_limit", "memory_limit", "such as 2GiB"),
    name("threads", "cpu_threads", ""),
    name("verbose", "log.level", "such as debug"),
    name("debug", "log.level", "such as debug"),
    name("loglevel", "log.level", ""),
];

/// A name as the table writes it.
fn written(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase()
}

/// What the table says of a name; `shown` makes of a key of ours what stands where the name stood.
fn find(name: &str, shown: impl Fn(&str) -> String) -> Option<(&'static str, String)> {
    let written = written(name);
    let fits = |foreign: &&Foreign| match foreign.theirs.strip_suffix(".*") {
        Some(group) => {
            written.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        None => foreign.theirs == written,
    };
    if let Some(Foreign { theirs, ours, note }) = NAMES.iter().find(fits) {
        let colon = if ours.is_empty() || note.is_empty() { "" } else { ": " };
        let ours = if ours.is_empty() { String::new() } else { shown(ours) };
        return Some((theirs, format!("{ours}{colon}{note}")));
    }
    let limit = written.strip_prefix("limits_config.")?;
    let known = LIMITS.iter().find(|known| known.key == limit)?;
    Some((known.key, shown(&format!("limits.{limit}"))))
}

/// What a key of a file is called here.
pub fn key(name: &str) -> Option<String> {
    find(name, |ours| if ours == "config" { "--config".to_owned() } else { ours.to_owned() })
        .map(|(_, text)| text)
}

/// What a flag is called here.
pub fn flag(name: &str) -> Option<String> {
    let flag_of = |ours: &str| format!("--{}", ours.replace(['.', '_'], "-"));
    find(name, flag_of).map(|(_, text)| text)
}

/// Keys that are explained of one file: more make no message.
const KEYS_SHOWN_MAX: usize = 15;

/// Whether a text that is no TOML is YAML: its first line with anything in it is a key and a colon.
pub fn is_yaml(path: &str, text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let has_key = first.is_some_and(|line| line == "---" || yaml_key(line).is_some());
    has_key || path.ends_with(".yaml") || path.ends_with(".yml")
}

/// What the keys of a YAML file are called here, a line each.
pub fn explain_yaml(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut explained: Vec<&str> = Vec::new();
    for path in yaml_paths(text) {
        let Some((theirs, ours)) = find(&path, str::to_owned) else { continue };
        if explained.contains(&theirs) || lines.len() == KEYS_SHOWN_MAX {
            continue;
        }
        explained.push(theirs);
        lines.push(format!("\n  {path} -> {ours}"));
    }
    lines.concat()
}

/// The paths of all keys with a value, in order: enough of YAML to know what a file is about.
fn yaml_paths(text: &str) -> Vec<String> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut paths = Vec::new();
    for line in text.lines() {
        let inner = line.trim_start_matches([' ', '-']);
        let indent = line.len() - inner.len();
        let Some((key, value)) = yaml_key(inner) else { continue };
        while open.last().is_some_and(|(outer, _)| *outer >= indent) {
            open.pop();
        }
        if value.is_empty() {
            open.push((indent, key));
        } else {
            let path: Vec<&str> = open.iter().map(|(_, outer)| *outer).chain([key]).collect();
            paths.push(path.join("."));
        }
    }
    paths
}

fn yaml_key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let value = value.split('#').next().unwrap_or_default();
    (is_name && (value.is_empty() || value.starts_with(' '))).then_some((key, value.trim()))
}

/// Whether the name is one of ours: it then needs no explanation.
pub fn is_ours(flag: &str) -> bool {
    let flag = flag.trim_start_matches('-');
    flag == "config" || Named::every().iter().any(|named| named.flag() == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_ours_exists_and_none_of_theirs_hides_one() {
        let known: Vec<String> = Named::every().iter().map(|named| named.key.clone()).collect();
        for foreign in NAMES {
            let Foreign { theirs, ours, note } = foreign;
            assert!(*ours == "config" || ours.is_empty() || known.iter().any(|key| key == ours), "{ours}");
            assert!(!ours.is_empty() || !note.is_empty(), "{theirs}");
            assert!(!known.iter().any(|key| key == theirs), "{theirs} is a key of ours");
            let asked = theirs.trim_end_matches(".*");
            let found = find(asked, str::to_owned).map(|(theirs, _)| theirs);
            assert_eq!(found, Some(*theirs), "a shorter name stands before it");
        }
    }

    #[test]
    fn names_of_loki_and_prometheus_are_known() {
        for (theirs, ours) in [
            ("--retention", "--limits-retention-period: how long"),
            ("-config.file", "--config: a TOML file"),
            ("--storage.tsdb.path", "--store"),
            ("-retentionFilter", "--limits-metrics-retention-series: rules"),
            ("-retentionPeriod", "--limits-retention-period: how long"),
            ("--storage.tsdb.retention.time", "--limits-retention-period"),
            ("--web.listen-address", "--listen"),
            ("-server.http-listen-port", "--listen"),
            ("-target", "not needed: each process does everything"),
            ("-limits_config.max_line_size", "--limits-max-line-size"),
            ("--port", "--listen: an address with its port"),
        ] {
            let found = flag(theirs).unwrap_or_default();
            assert!(found.starts_with(ours), "{theirs}: {found}");
        }
        assert_eq!(flag("--flux-capacitor"), None);
        assert_eq!(key("compactor.compaction_interval").as_deref(), Some("compaction.interval"));
        assert!(key("schema_config").unwrap_or_default().starts_with("not needed"));
        assert!(key("common.storage.s3.bucketnames").unwrap_or_default().starts_with("store: a bucket"));
    }

    #[test]
    fn a_file_of_loki_is_explained_key_by_key() {
        let file = "auth_enabled: false\n\nserver:\n  http_listen_port: 3100 # here\n\ncommon:\n  ring:\n    \
                    kvstore:\n      store: inmemory\n  replication_factor: 1\n  path_prefix: /tmp/loki\n\n\
                    schema_config:\n  configs:\n  - from: 2020-05-15\n    store: tsdb\n\nlimits_config:\n  \
                    retention_period: 744h\n  unknown_thing: 1\nunknown: 2\n";
        assert!(is_yaml("loki-config", file) && !is_yaml("x.toml", "a = 1"));
        assert!(is_yaml("x.yaml", "a = 1"));
        assert_eq!(
            explain_yaml(file).lines().collect::<Vec<_>>(),
            [
                "",
                "  auth_enabled -> auth.require_tenant",
                "  server.http_listen_port -> listen: an address with its port, such as 0.0.0.0:3100",
                "  common.ring.kvstore.store -> not needed: processes meet in the bucket, any number can \
                 share one",
                "  common.replication_factor -> not needed: an acknowledged line is in the store",
                "  common.path_prefix -> store: everything lies in one place",
                "  schema_config.configs.from -> not needed: blocks describe themselves, there is no schema \
                 and no index to set up",
                "  limits_config.retention_period -> limits.retention_period",
            ]
        );
    }
}

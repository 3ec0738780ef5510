//! The table of options: it gives each setting its name, help and slot.
//!
//! Flag and environment variable follow from the key: `flush.max_age` is `--flush-max-age` and
//! `SANDUR_FLUSH_MAX_AGE`. Defaults are those of [`Settings::default`].

use super::gossip_table::GOSSIP;
use super::limits_table::{LIMITS, LimitSpec};
use super::notify_table::NOTIFY;
use super::option_spec::{OptionSpec, option};
use super::ruler_table::RULER;
use super::settings::Settings;
use super::slot::Slot;

/// Values of `log.format`.
pub const LOG_FORMATS: &[&str] = &["text", "logfmt", "json"];

/// Values of `tls.client_auth`.
pub const CLIENT_AUTH_CHOICES: &[&str] = &["require", "optional"];

/// Values of `query.log`.
pub const QUERY_LOG_CHOICES: &[&str] = &["selected", "all"];

/// Values of `cache.flash`.
pub const FLASH_CHOICES: &[&str] = &["auto", "on", "off"];

/// All options except those of gossip, the ruler, notifications and limits.
pub static OPTIONS: &[OptionSpec] = &[
    option(
        "store",
        "Where data is stored: a path or file://PATH, s3://BUCKET/PREFIX?region=..&endpoint=.., \
         gs://BUCKET/PREFIX, az://CONTAINER/PREFIX. Credentials come from the usual variables of the \
         provider.",
        |s| Slot::Text(&mut s.store),
    ),
    option(
        "listen",
        "Address of the HTTP listener; port 0 selects a free port, which is printed. Beyond loopback it \
         needs auth.file or insecure_listen.",
        |s| Slot::Text(&mut s.listen),
    ),
    option(
        "admin_listen",
        "Address of a listener for operators: deletes, flushes, /config, /log_level and the shutdown of the \
         process are served there and are 404 on the HTTP listener. Empty: the HTTP listener serves all of \
         them.",
        |s| Slot::Text(&mut s.admin_listen),
    ),
    option(
        "otlp_grpc_listen",
        "Address of a listener for gRPC: logs and metrics by OTLP, whose exporters expect port 4317, and \
         carbonserver's service for carbonapi. Empty: only the HTTP listener accepts them (gRPC is HTTP/2).",
        |s| Slot::Text(&mut s.otlp_grpc_listen),
    ),
    option(
        "insecure_listen",
        "Listen beyond loopback without credentials: every client that can reach the address has all \
         permissions.",
        |s| Slot::Switch(&mut s.insecure_listen),
    ),
    option(
        "memory_limit",
        "Memory of the whole process, at least 128 MiB; heads, queries, bodies and caches each get a share \
         of it.",
        |s| Slot::Size(&mut s.memory_limit),
    )
    .default_in_words("half of the machine's or cgroup's memory"),
    option("cpu_threads", "Threads for decoding, searching and compacting; 0: one per processor.", |s| {
        Slot::Count(&mut s.cpu_threads)
    }),
    option(
        "limits_file",
        "Limits of single tenants that can change while the server runs: TOML with a table [overrides.NAME] \
         per tenant and the keys of [limits]. It is read every 10 s; an invalid or empty file changes \
         nothing.",
        |s| Slot::Text(&mut s.limits_file),
    ),
    option(
        "self_logs",
        "Store the server's own log (level info and above) in its own store, with the labels \
         service_name=\"sandur\", component and level.",
        |s| Slot::Switch(&mut s.self_logs),
    ),
    option("self_logs_tenant", "Tenant of the server's own log.", |s| Slot::Text(&mut s.self_logs_tenant)),
    option(
        "scrape",
        "Targets that are scraped for metrics: HOST:PORT (its /metrics is requested) or a URL.",
        |s| Slot::List(&mut s.scrape),
    ),
    option(
        "scrape_config",
        "Prometheus configuration file whose scrape_configs are scraped, with targets from lists, files, DNS \
         and Kubernetes (docs/scraping.md). Unsupported parts of it are listed in the log at the start. \
         Empty: none.",
        |s| Slot::Text(&mut s.scrape_config),
    ),
    option(
        "rules",
        "Files and folders of recording and alerting rules that this process evaluates, in the format of \
         Prometheus and Loki; `logql:PATH` for rules in LogQL. They are read again when they change; a file \
         with an error keeps what held before. Give all processes of a bucket the same files under \
         the same paths (docs/rules.md).",
        |s| Slot::List(&mut s.rules),
    ),
    option(
        "dashboards",
        "Folder of dashboards that the explorer offers to everyone: at most 1,000 files NAME.json or \
         FOLDER/NAME.json of at most 2 MiB, as the explorer or Grafana exports them. They are read again \
         when they change (docs/explorer.md). Empty: none.",
        |s| Slot::Text(&mut s.dashboards),
    ),
    option(
        "self_rules",
        "Evaluate the built-in alerts and recording rules about this server (packaging/alerts.yml, \
         packaging/recording.yml) for the tenant ruler.tenant. \
         Each scrape_interval its own metrics are stored for them, as those of the job sandur \
         (docs/rules.md).",
        |s| Slot::Switch(&mut s.self_rules),
    ),
    option(
        "alertmanager_url",
        "URLs of the Alertmanagers that alerts are sent to. A user and a password in the URL are sent as \
         basic authentication. Empty: alerts are only shown and stored.",
        |s| Slot::List(&mut s.alertmanager_url),
    ),
    option(
        "relay_config",
        "Configuration file of a relay for carbon points inside the server: carbon's, carbon-c-relay's, \
         carbon-relay-ng's or ours. Its target 'sandur' is this server. Empty: none.",
        |s| Slot::Text(&mut s.relay_config),
    ),
    option(
        "relay_spool_dir",
        "Directory where the relay keeps lines for unreachable targets. Empty: as its file says.",
        |s| Slot::Text(&mut s.relay_spool_dir),
    ),
    option("relay_tenant", "Tenant of the points that the relay stores here.", |s| {
        Slot::Text(&mut s.relay_tenant)
    }),
    option("scrape_interval", "How often the targets of the option scrape are scraped.", |s| {
        Slot::Duration(&mut s.scrape_interval)
    }),
    option("scrape_tenant", "Tenant that scraped samples belong to.", |s| Slot::Text(&mut s.scrape_tenant)),
    option(
        "auth.file",
        "File of credentials: tokens and users with their tenants and scopes (docs/security.md). It is \
         reloaded when it changes. Empty: every client has all permissions.",
        |s| Slot::Text(&mut s.auth.file),
    ),
    option(
        "auth.require_tenant",
        "Refuse requests without the header X-Scope-OrgID. Otherwise they belong to the \
         tenant 'fake', as in Loki.",
        |s| Slot::Switch(&mut s.auth.require_tenant),
    ),
    option(
        "tls.cert_file",
        "Certificates of the listeners (PEM), the server's own first. It is reloaded when it changes, and \
         so are the key and the authorities. Empty: no TLS.",
        |s| Slot::Text(&mut s.tls.cert_file),
    ),
    option("tls.key_file", "Key of the first certificate (PEM).", |s| Slot::Text(&mut s.tls.key_file)),
    option(
        "tls.client_ca_file",
        "Authorities that sign certificates of clients (PEM). Empty: clients need no certificate.",
        |s| Slot::Text(&mut s.tls.client_ca_file),
    ),
    option(
        "tls.client_auth",
        "With tls.client_ca_file: require (no certificate, no connection) or optional (a certificate that \
         is presented must be valid).",
        |s| Slot::Choice(&mut s.tls.client_auth, CLIENT_AUTH_CHOICES),
    ),
    option("log.format", "Format of the log on stderr: text, logfmt or json.", |s| {
        Slot::Choice(&mut s.log.format, LOG_FORMATS)
    }),
    option("log.level", "Minimum severity (error, warn, info, debug, trace) or a filter per module.", |s| {
        Slot::Text(&mut s.log.level)
    }),
    option(
        "carbon.listen",
        "Address for Graphite's lines over TCP and UDP; senders expect port 2003. The protocol has no \
         credentials: beyond loopback it needs insecure_listen, even with auth.file. Empty: none.",
        |s| Slot::Text(&mut s.carbon.listen),
    ),
    option(
        "carbon.pickle_listen",
        "Address for Graphite's pickles; relays expect port 2004. Empty: none.",
        |s| Slot::Text(&mut s.carbon.pickle_listen),
    ),
    option("carbon.protobuf_listen", "Address for go-carbon's protobuf messages. Empty: none.", |s| {
        Slot::Text(&mut s.carbon.protobuf_listen)
    }),
    option(
        "carbon.window",
        "Bytes of a connection that may be received but not yet durable; at this limit reading pauses. A \
         larger window is faster on a bucket, but its data is lost when the process dies.",
        |s| Slot::Size(&mut s.carbon.window),
    ),
    option(
        "carbon.max_frame_bytes",
        "Maximum bytes of a pickle or protobuf message; a longer one closes its connection.",
        |s| Slot::Size(&mut s.carbon.max_frame_bytes),
    ),
    option(
        "carbon.message_timeout",
        "Time limit for receiving a complete line or message, and for a compressed connection to wait while \
         resident memory is short.",
        |s| Slot::Duration(&mut s.carbon.message_timeout),
    ),
    option("carbon.idle_timeout", "A connection without traffic is closed after this time.", |s| {
        Slot::Duration(&mut s.carbon.idle_timeout)
    }),
    option(
        "carbon.max_connections",
        "Maximum number of connections of all listeners for Graphite's \
         protocols.",
        |s| Slot::Count(&mut s.carbon.max_connections),
    ),
    option("carbon.tenant", "Tenant of the points. Empty: the default tenant.", |s| {
        Slot::Text(&mut s.carbon.tenant)
    }),
    option("carbon.pickle_tenant", "Tenant of the pickle listener. Empty: that of carbon.tenant.", |s| {
        Slot::Text(&mut s.carbon.pickle_tenant)
    }),
    option("carbon.protobuf_tenant", "Tenant of the protobuf listener. Empty: that of carbon.tenant.", |s| {
        Slot::Text(&mut s.carbon.protobuf_tenant)
    }),
    option(
        "carbon.tenant_by_prefix",
        "Tenants by prefix of the name, PREFIX=TENANT; the longest prefix applies and overrides the \
         listener's tenant.",
        |s| Slot::List(&mut s.carbon.tenant_by_prefix),
    ),
    option(
        "carbon.tenant_by_first_node",
        "The first node of a path is its tenant, unless carbon.tenant_by_prefix applies or the node is not \
         a valid tenant name.",
        |s| Slot::Switch(&mut s.carbon.tenant_by_first_node),
    ),
    option(
        "http.max_connections",
        "Maximum number of open connections, and no more than fit in 2 % of (memory_limit - 40 MiB) at 16 \
         KiB each. At the limit a new connection closes the one that is idle longest; while all are busy, \
         new ones wait in the system's queue.",
        |s| Slot::Count(&mut s.http.max_connections),
    ),
    option(
        "http.max_connections_per_address",
        "Maximum number of open connections of one address (IPv6: of one /64); 0: half of all. At the limit \
         a new connection closes the longest idle one of the address; while all of them are busy, new ones \
         are refused.",
        |s| Slot::Count(&mut s.http.max_connections_per_address),
    ),
    option("http.header_timeout", "Time limit for a client to send the head of a request.", |s| {
        Slot::Duration(&mut s.http.header_timeout)
    }),
    option("http.idle_timeout", "Maximum pause between two requests of a connection.", |s| {
        Slot::Duration(&mut s.http.idle_timeout)
    }),
    option("http.body_idle_timeout", "Maximum pause of a client while it sends a body.", |s| {
        Slot::Duration(&mut s.http.body_idle_timeout)
    }),
    option(
        "http.min_client_rate",
        "Minimum bytes per second at which a client must send a body, or read an answer that waits for it, \
         over each 10 s; slower clients are disconnected, with 503 for the body of a push and 408 for other \
         bodies. 0: no limit.",
        |s| Slot::Size(&mut s.http.min_client_rate),
    ),
    option("http.write_idle_timeout", "Maximum pause of a client while it reads an answer.", |s| {
        Slot::Duration(&mut s.http.write_idle_timeout)
    }),
    option("http.drain_timeout", "Time limit for running requests to finish when the server stops.", |s| {
        Slot::Duration(&mut s.http.drain_timeout)
    }),
    option(
        "http.allowed_hosts",
        "Names of this server in addition to those of loopback, such as that of a proxy, which requests may \
         have in Host and Origin.",
        |s| Slot::List(&mut s.http.allowed_hosts),
    ),
    option(
        "query.max_concurrent",
        "Queries that run at the same time; 0: two per processor, at least four.",
        |s| Slot::Count(&mut s.query.max_concurrent),
    ),
    option(
        "query.max_queued",
        "Maximum number of waiting queries of one tenant; more are refused with 429.",
        |s| Slot::Count(&mut s.query.max_queued),
    ),
    option(
        "query.multi_tenant_queries_enabled",
        "Answer queries whose X-Scope-OrgID contains several tenants, separated by |; their rows get the \
         label __tenant_id__.",
        |s| Slot::Switch(&mut s.query.multi_tenant),
    ),
    option("query.cache_results", "Keep results of metric range queries in memory and reuse them.", |s| {
        Slot::Switch(&mut s.query.cache_results)
    }),
    option("query.timeout", "A query of samples (PromQL) is aborted after this time, with 503.", |s| {
        Slot::Duration(&mut s.query.timeout)
    }),
    option(
        "query.max_samples",
        "Maximum number of samples that a query of samples may read; with more it \
         fails with 422.",
        |s| Slot::Count(&mut s.query.max_samples),
    ),
    option(
        "query.lookback_delta",
        "Maximum age of the sample that is the value at an instant, unless the query sets it.",
        |s| Slot::Duration(&mut s.query.lookback_delta),
    ),
    option(
        "query.max_view_age",
        "If the view of other processes' data is older than this, answers contain a warning and \
         /ready?for=query is 503; at least twice cluster.poll_interval; 0: no limit.",
        |s| Slot::Duration(&mut s.query.max_view_age),
    ),
    option(
        "query.slow_threshold",
        "Queries that take at least this long, with the time in the queue, are logged with latency=slow and \
         listed by /sandur/slow_queries.",
        |s| Slot::Duration(&mut s.query.slow_threshold),
    ),
    option(
        "query.log",
        "Lines of queries in the log on stderr: selected (slow queries, failed queries and a sample of the \
         others, each at a bounded rate) or all. The log that self_logs stores always has all of them.",
        |s| Slot::Choice(&mut s.query.log, QUERY_LOG_CHOICES),
    ),
    option(
        "graphite.schemas",
        "Carbon's storage-schemas.conf: at which steps Graphite's series are read, and how far back. It \
         applies to all stored data and is reloaded when it changes. Empty: one value per minute, for any \
         age.",
        |s| Slot::Text(&mut s.graphite.schemas),
    ),
    option(
        "graphite.aggregation",
        "Carbon's storage-aggregation.conf: how values are aggregated to coarser steps; it is reloaded when \
         it changes. Empty: the mean, if at least half of the values exist.",
        |s| Slot::Text(&mut s.graphite.aggregation),
    ),
    option(
        "graphite.expire",
        "Also delete points of Graphite's series that are older than the longest archive of their section \
         of graphite.schemas. Names without a section follow retention_period. Off by default, because a \
         mistake in that file would delete history.",
        |s| Slot::Switch(&mut s.graphite.expire),
    ),
    option(
        "graphite.rollups",
        "Also replace points of Graphite's series that are older than an archive of their section of \
         graphite.schemas by rollups: for each step of the next archive count, sum, min, max, first and \
         last. Renders do not change and data takes less space, but PromQL no longer sees the points. Off \
         by default, because the points cannot be restored.",
        |s| Slot::Switch(&mut s.graphite.rollups),
    ),
    option(
        "storage.max_concurrent_reads",
        "In a bucket: maximum number of concurrent block reads while the store keeps up; fewer when it does \
         not.",
        |s| Slot::Count(&mut s.storage.max_concurrent_reads),
    ),
    option(
        "storage.max_concurrent_writes",
        "In a bucket: maximum number of concurrent block writes while \
         the store keeps up; fewer when it does not.",
        |s| Slot::Count(&mut s.storage.max_concurrent_writes),
    ),
    option(
        "storage.max_waiting",
        "Maximum number of requests of a lane that wait for a slot; more are \
         refused.",
        |s| Slot::Count(&mut s.storage.max_waiting),
    ),
    option(
        "storage.hedging_at",
        "In a bucket: a read that is slower than 97 % of the reads of its size, and slower than this, is \
         sent a second time.",
        |s| Slot::Duration(&mut s.storage.hedging_at),
    ),
    option(
        "storage.hedging_max_percent",
        "Maximum number of second requests per hundred reads; 0: none.",
        |s| Slot::Count(&mut s.storage.hedging_max_percent),
    ),
    option("storage.retry_max_percent", "Maximum number of retries per hundred requests of a lane.", |s| {
        Slot::Count(&mut s.storage.retry_max_percent)
    }),
    option("storage.price_writes", "Dollars per million writes or listings, for the cost estimate.", |s| {
        Slot::Price(&mut s.storage.prices.writes_per_million)
    }),
    option("storage.price_reads", "Dollars per million reads.", |s| {
        Slot::Price(&mut s.storage.prices.reads_per_million)
    }),
    option("storage.price_deletes", "Dollars per million deletes.", |s| {
        Slot::Price(&mut s.storage.prices.deletes_per_million)
    }),
    option("storage.price_egress", "Dollars per GiB that is read; 0 within a region.", |s| {
        Slot::Price(&mut s.storage.prices.egress_per_gib)
    }),
    option(
        "cache.dir",
        "Directory on a local disk where parts of blocks are cached, so that they need not be read from the \
         store again, even after a restart or a crash. It can be deleted at any time. Empty: memory only.",
        |s| Slot::Text(&mut s.cache.dir),
    ),
    option(
        "cache.size",
        "Bytes of the flash tier in cache.dir; 0: its current size, or half of the free space for a new one.",
        |s| Slot::Size(&mut s.cache.size),
    ),
    option(
        "cache.flash",
        "Use cache.dir: auto (when the store is a bucket), on (also for a local directory) or off.",
        |s| Slot::Choice(&mut s.cache.flash, FLASH_CHOICES),
    ),
    option(
        "cache.write_per_day",
        "Maximum bytes written to cache.dir in 24 hours, to spare the disk; 0: no limit.",
        |s| Slot::Size(&mut s.cache.write_per_day),
    ),
    option(
        "cache.tenant_share",
        "Maximum share of the flash tier for one tenant once the tier is full, such as 30%; NAME=50% is for \
         one tenant. Data beyond a tenant's share stays in memory; 100%: no limit. The flag may be repeated.",
        |s| Slot::Shares(&mut s.cache.tenant_share),
    ),
    option("wal.group_bytes", "In a bucket: bytes that complete a WAL segment.", |s| {
        Slot::Size(&mut s.wal.group_bytes)
    }),
    option(
        "wal.group_age",
        "In a bucket: maximum time that a push waits for others to share its WAL segment. An idle server \
         does not wait; see wal.requests_per_second.",
        |s| Slot::Duration(&mut s.wal.group_age),
    ),
    option(
        "wal.requests_per_second",
        "In a bucket: budget of WAL segments that are written early, for low latency. Beyond it pushes wait \
         for others to share a segment, up to wal.group_age. 2 per second for a month are 5.2 million \
         requests: $25.92 at S3's list price.",
        |s| Slot::Rate(&mut s.wal.requests_per_second),
    ),
    option(
        "wal.requests_burst",
        "In a bucket: maximum number of unused requests of that budget that are saved for busy times.",
        |s| Slot::Count(&mut s.wal.requests_burst),
    ),
    option("flush.max_age", "Age of the oldest row in memory that starts a flush.", |s| {
        Slot::Duration(&mut s.flush.max_age)
    }),
    option(
        "flush.max_bytes",
        "Bytes of lines and samples in memory that start a flush; of each series the first 256 do not count.",
        |s| Slot::Size(&mut s.flush.max_bytes),
    ),
    option("compaction.interval", "How often compaction and retention look for work.", |s| {
        Slot::Duration(&mut s.compaction.interval)
    }),
    option(
        "compaction.block_max",
        "A block with at least this many raw bytes is no longer merged; 0: this process merges nothing, and \
         other nodes of the bucket take over.",
        |s| Slot::Size(&mut s.compaction.block_max),
    ),
    option(
        "compaction.delete_request_cancel_period",
        "How long a delete request can be cancelled; its lines are hidden immediately and removed after \
         this time.",
        |s| Slot::Duration(&mut s.compaction.delete_request_cancel_period),
    ),
    option(
        "compaction.delete_max_interval",
        "Maximum max_interval of a delete request with filters. It is checked as in Loki; requests are not \
         split.",
        |s| Slot::Duration(&mut s.compaction.delete_max_interval),
    ),
    option(
        "retention.change_delay",
        "A changed retention removes nothing until it has been unchanged for this time, so that a mistake \
         can be noticed.",
        |s| Slot::Duration(&mut s.retention.change_delay),
    ),
    option("retention.interval", "How often unused objects are searched for.", |s| {
        Slot::Duration(&mut s.retention.interval)
    }),
    option(
        "retention.delete_delay",
        "How long a removed block stays in the store for readers that still use it; must be longer than any \
         query.",
        |s| Slot::Duration(&mut s.retention.delete_delay),
    ),
    option(
        "cluster.node_id",
        "Stable id of this node: letters, digits, '-', '_' and '.', at most 64. Each process of a bucket \
         needs its own. Empty: it is made once and kept in the file node_id of cache.dir, or of the \
         directory of a local store; without either, each start has a new one.",
        |s| Slot::Text(&mut s.cluster.node_id),
    ),
    option(
        "cluster.advertise_address",
        "Address HOST:PORT at which other nodes reach this process. Empty: the address of listen; if that is \
         0.0.0.0 or [::], the address of the interface with the default route.",
        |s| Slot::Text(&mut s.cluster.advertise_address),
    ),
    option(
        "cluster.zone",
        "Failure domain of this node, such as the availability zone. The second choice for a piece of work \
         is a node in another zone.",
        |s| Slot::Text(&mut s.cluster.zone),
    ),
    option(
        "cluster.roles",
        "The work that this process does: ingest (takes pushes), query (answers queries), compact (merges, \
         retention, deletes, rollups), cache (keeps parts of blocks for other nodes; nothing depends on it \
         yet), rules (evaluates rules). The flag is also called --roles.",
        |s| Slot::Roles(&mut s.cluster.roles),
    ),
    option("cluster.poll_interval", "How often the bucket is polled for changes by other processes.", |s| {
        Slot::Duration(&mut s.cluster.poll_interval)
    }),
    option("cluster.heartbeat_interval", "How often this process writes its heartbeat.", |s| {
        Slot::Duration(&mut s.cluster.heartbeat_interval)
    }),
    option(
        "cluster.dead_after",
        "Time without a heartbeat after which another process is considered dead and its unflushed rows are \
         adopted.",
        |s| Slot::Duration(&mut s.cluster.dead_after),
    ),
];

/// An option of the table or a limit, with a common interface.
pub struct Named {
    /// Key in the file.
    pub key: String,
    /// What it does.
    pub help: &'static str,
    /// Kind of the value.
    pub kind: &'static str,
    /// Its default.
    pub default: String,
    setter: Setter,
}

enum Setter {
    Option(&'static OptionSpec),
    Limit(&'static LimitSpec),
}

impl Named {
    /// All options, in the order of the table, then the limits.
    pub fn every() -> Vec<Self> {
        let mut defaults = Settings::default();
        let mut all = Vec::new();
        for spec in OPTIONS.iter().chain(GOSSIP).chain(RULER).chain(NOTIFY) {
            let slot = (spec.slot)(&mut defaults);
            let default = spec.default.map_or_else(|| slot.print(), str::to_owned);
            let kind = slot.kind();
            let setter = Setter::Option(spec);
            all.push(Self { key: spec.key.to_owned(), help: spec.help, kind, default, setter });
        }
        for spec in LIMITS {
            let slot = (spec.slot)(&mut defaults.limits);
            let (default, kind) = (slot.print(), slot.kind());
            let (key, setter) = (format!("limits.{}", spec.key), Setter::Limit(spec));
            all.push(Self { key, help: spec.help, kind, default, setter });
        }
        all
    }

    /// The flag, without the leading dashes.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("SANDUR_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }

    /// The setting.
    pub fn slot<'a>(&self, settings: &'a mut Settings) -> Slot<'a> {
        match self.setter {
            Setter::Option(spec) => (spec.slot)(settings),
            Setter::Limit(spec) => (spec.slot)(&mut settings.limits),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn flags_are_unique_and_every_default_can_be_parsed() {
        let all = Named::every();
        let flags: BTreeSet<String> = all.iter().map(Named::flag).collect();
        assert_eq!(flags.len(), all.len());
        for must in ["store", "listen", "memory-limit", "flush-max-age", "limits-max-line-size"] {
            assert!(flags.contains(must), "{must}");
        }
        for named in &all {
            let mut settings = Settings::default();
            let printed = named.slot(&mut settings).print();
            named.slot(&mut settings).set(&printed).unwrap();
            let again = named.slot(&mut settings).print();
            assert_eq!(again, printed, "{}", named.key);
            assert!(named.help.ends_with('.'), "{}", named.key);
        }
    }

    #[test]
    fn the_table_reaches_every_limit() {
        // A limit that is missing in the table could not be configured.
        let fields_of = |text: &str, prefix: &str| -> BTreeSet<String> {
            let parts = text.split(['{', ',']).filter_map(|part| Some(part.trim().split_once(": ")?.0));
            parts.filter(|field| *field != "metrics").map(|field| format!("{prefix}{field}")).collect()
        };
        let limits = sandur_model::Limits::default();
        let of_metrics = format!("{:?}", limits.metrics);
        let mut fields = fields_of(&format!("{limits:?}").replace(&of_metrics, ""), "");
        fields.extend(fields_of(&of_metrics, "metrics."));
        let keys: BTreeSet<String> = LIMITS.iter().map(|l| l.key.to_owned()).collect();
        assert_eq!(keys, fields);
    }
}

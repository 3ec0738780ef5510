//! The settings of a server with their defaults. Plain data: the option table says how each is named.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_base::machine;
use sandur_base::units::{GIB, KIB, MIB};
use sandur_model::{Limits, TenantId};
use sandur_store::Prices;

use super::tenant_shares::TenantShares;

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where data lives: `file://`, `s3://`, `gs://` or `az://`, or a path.
    pub store: String,
    /// Address of the HTTP listener.
    pub listen: String,
    /// Address of the listener for operators; empty: the HTTP listener serves all.
    pub admin_listen: String,
    /// Listen beyond loopback without credentials.
    pub insecure_listen: bool,
    /// Bytes of memory that the process may use.
    pub memory_limit: u64,
    /// Threads for computation; 0: one per processor.
    pub cpu_threads: u64,
    /// File with limits of single tenants that is read while the server runs; empty: none.
    pub limits_file: String,
    /// Address of the listener for OTLP over gRPC; empty: the HTTP listener alone takes it.
    pub otlp_grpc_listen: String,
    /// Who may call.
    pub auth: Auth,
    /// TLS of the listeners.
    pub tls: TlsSettings,
    /// Log output.
    pub log: Log,
    /// Store the own log in the own store.
    pub self_logs: bool,
    /// Tenant that the own log belongs to.
    pub self_logs_tenant: String,
    /// Addresses or URLs of targets to scrape.
    pub scrape: Vec<String>,
    /// Prometheus configuration file whose `scrape_configs` are scraped; empty: none.
    pub scrape_config: String,
    /// Configuration file of the relay inside of the server; empty: none.
    pub relay_config: String,
    /// Where the relay keeps lines for targets that are away; empty: as its file says.
    pub relay_spool_dir: String,
    /// Tenant that points belong to which the relay stores here.
    pub relay_tenant: String,
    /// How often the targets of `scrape` are scraped.
    pub scrape_interval: Duration,
    /// Tenant that scraped samples belong to.
    pub scrape_tenant: String,
    /// Listeners of Graphite's protocols.
    pub carbon: Carbon,
    /// HTTP listener.
    pub http: Http,
    /// Queries.
    pub query: Query,
    /// Graphite's files of rules.
    pub graphite: Graphite,
    /// RequestLimits towards the store.
    pub storage: Storage,
    /// Pieces of blocks in memory and on flash.
    pub cache: CacheSettings,
    /// Write-ahead log.
    pub wal: Wal,
    /// From memory to blocks.
    pub flush: Flush,
    /// Merging of blocks.
    pub compaction: Compaction,
    /// Deleting of data.
    pub retention: Retention,
    /// Processes that share a bucket.
    pub cluster: Cluster,
    /// Limits of tenants that have none of their own.
    pub limits: Limits,
    /// Limits of single tenants.
    pub tenants: BTreeMap<String, Limits>,
}

/// Who may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// File of credentials; empty: every client may do everything.
    pub file: String,
    /// Refuse requests without `X-Scope-OrgID`.
    pub require_tenant: bool,
}

/// TLS of the listeners.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsSettings {
    /// Certificates; empty: no TLS.
    pub cert_file: String,
    /// Key of the first certificate.
    pub key_file: String,
    /// Who signs certificates of clients; empty: they need none.
    pub client_ca_file: String,
    /// `require` or `optional`.
    pub client_auth: String,
}

impl TlsSettings {
    /// Whether only clients with a certificate get in.
    pub fn requires_certificates(&self) -> bool {
        !self.client_ca_file.is_empty() && self.client_auth == "require"
    }
}

impl Default for TlsSettings {
    fn default() -> Self {
        let none = String::new;
        let client_auth = "require".to_owned();
        Self { cert_file: none(), key_file: none(), client_ca_file: none(), client_auth }
    }
}

/// Listeners of Graphite's protocols.
#[derive(Clone, Debug, PartialEq)]
pub struct Carbon {
    /// Address for lines over TCP and UDP; empty: none.
    pub listen: String,
    /// Address for pickles over TCP; empty: none.
    pub pickle_listen: String,
    /// Address for protobuf messages over TCP; empty: none.
    pub protobuf_listen: String,
    /// Bytes of a connection that may be received and not durable.
    pub window: u64,
    /// Bytes of a message with its length in front.
    pub max_frame_bytes: u64,
    /// How long a message may take to come whole.
    pub message_timeout: Duration,
    /// How long a connection may be silent.
    pub idle_timeout: Duration,
    /// Connections of all listeners.
    pub max_connections: u64,
    /// Whose points are; empty: the default tenant's.
    pub tenant: String,
    /// Whose points of the pickle listener are; empty: those of `tenant`.
    pub pickle_tenant: String,
    /// Whose points of the protobuf listener are; empty: those of `tenant`.
    pub protobuf_tenant: String,
    /// `PREFIX=TENANT`.
    pub tenant_by_prefix: Vec<String>,
    /// Whether the first node of a path is its tenant.
    pub tenant_by_first_node: bool,
}

impl Default for Carbon {
    fn default() -> Self {
        Self {
            listen: String::new(),
            pickle_listen: String::new(),
            protobuf_listen: String::new(),
            window: 4 * MIB,
            max_frame_bytes: MIB,
            message_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(3_600),
            max_connections: 1_024,
            tenant: String::new(),
            pickle_tenant: String::new(),
            protobuf_tenant: String::new(),
            tenant_by_prefix: Vec::new(),
            tenant_by_first_node: false,
        }
    }
}

/// Log output.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// `text`, `logfmt` or `json`.
    pub format: String,
    /// Least severity, or a filter such as `info,sandur_engine=debug`.
    pub level: String,
}

/// HTTP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Connections at a time.
    pub max_connections: u64,
    /// Connections of one address at a time; 0: half of all.
    pub max_connections_per_address: u64,
    /// Least bytes per second of a client that sends a body or reads an answer; 0: no limit.
    pub min_client_rate: u64,
    /// Time to send the head of a request.
    pub header_timeout: Duration,
    /// Longest pause between two requests of a connection.
    pub idle_timeout: Duration,
    /// Longest pause while a body is sent.
    pub body_idle_timeout: Duration,
    /// Longest pause while an answer is read.
    pub write_idle_timeout: Duration,
    /// Time that requests have to end when the server stops.
    pub drain_timeout: Duration,
    /// Names beside those of loopback that `Host` and `Origin` may carry.
    pub allowed_hosts: Vec<String>,
}

/// Queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Queries that run at the same time; 0: two per processor, at least four.
    pub max_concurrent: u64,
    /// Queries of one tenant that may wait.
    pub max_queued: u64,
    /// Answer queries over several tenants.
    pub multi_tenant: bool,
    /// Keep results of metric range queries.
    pub cache_results: bool,
    /// A query of samples is ended after this time.
    pub timeout: Duration,
    /// Samples that a query may read.
    pub max_samples: u64,
    /// How old a sample may be that stands for an instant.
    pub lookback_delta: Duration,
    /// Age of the view of the store from which on answers carry a warning.
    pub max_view_age: Duration,
    /// Queries slower than this are logged with `latency=slow`.
    pub slow_threshold: Duration,
}

/// Graphite's files of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphite {
    /// Path of a `storage-schemas.conf`; empty: none.
    pub schemas: String,
    /// Path of a `storage-aggregation.conf`; empty: none.
    pub aggregation: String,
    /// Whether the last archive of a section is how long its series are stored.
    pub expire: bool,
    /// Whether points become rollups when archives of their section are over.
    pub rollups: bool,
}

/// RequestLimits towards a store that others use too.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Block reads under way at once.
    pub max_concurrent_reads: u64,
    /// Block writes under way at once.
    pub max_concurrent_writes: u64,
    /// Requests of a lane that may wait for a slot.
    pub max_waiting: u64,
    /// No read is sent a second time earlier than this.
    pub hedging_at: Duration,
    /// Second requests per hundred reads.
    pub hedging_max_percent: u64,
    /// Retries per hundred requests.
    pub retry_max_percent: u64,
    /// What requests cost.
    pub prices: Prices,
}

/// Pieces of blocks in memory and on flash.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// Directory of the flash tier; empty: none.
    pub dir: String,
    /// Bytes of the flash tier; 0: what is there already, or half of what is free.
    pub size: u64,
    /// `auto`: with a bucket; `on`: also with a local directory; `off`.
    pub flash: String,
    /// Bytes that may be written to flash in 24 hours; 0: no limit.
    pub write_per_day: u64,
    /// Part of flash that one tenant may hold while it is full.
    pub tenant_share: TenantShares,
}

/// Write-ahead log.
#[derive(Clone, Debug, PartialEq)]
pub struct Wal {
    /// Bytes of one group commit in a bucket.
    pub group_bytes: u64,
    /// Age of one group commit in a bucket.
    pub group_age: Duration,
    /// Group commits per second that the budget of requests to a bucket gains.
    pub requests_per_second: f64,
    /// Group commits that the budget holds.
    pub requests_burst: u64,
}

/// From memory to blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Flush {
    /// Oldest unflushed row.
    pub max_age: Duration,
    /// Raw bytes of a tenant that start a flush.
    pub max_bytes: u64,
}

/// Merging of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// How often it looks for work.
    pub interval: Duration,
    /// Raw bytes of a block that is not merged any more; 0: nothing is merged by this process.
    pub block_max: u64,
    /// How long a delete request can be cancelled before its lines are removed.
    pub delete_request_cancel_period: Duration,
    /// Largest `max_interval` of a delete request.
    pub delete_max_interval: Duration,
}

/// Processes that share a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// How often news of the others are asked for.
    pub poll_interval: Duration,
    /// How often this process says that it lives.
    pub heartbeat_interval: Duration,
    /// Silence after which another process is taken for dead and its rows are adopted.
    pub dead_after: Duration,
}

/// Deleting of data.
#[derive(Clone, Debug, PartialEq)]
pub struct Retention {
    /// How long a changed retention must have stood before it removes anything.
    pub change_delay: Duration,
    /// How often unused objects are looked for.
    pub interval: Duration,
    /// How long a removed block stays, for readers that still use it.
    pub delete_delay: Duration,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            max_connections: 4_096,
            max_connections_per_address: 0,
            // A megabyte, which is what agents send at once, takes a minute at most.
            min_client_rate: 16 * KIB,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_idle_timeout: Duration::from_secs(30),
            write_idle_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            allowed_hosts: Vec::new(),
        }
    }
}

impl Default for Query {
    fn default() -> Self {
        Self {
            max_concurrent: 0,
            max_queued: 1_000,
            multi_tenant: false,
            cache_results: true,
            timeout: Duration::from_secs(120),
            max_samples: 1_000_000_000,
            lookback_delta: Duration::from_secs(300),
            max_view_age: Duration::from_secs(5),
            slow_threshold: Duration::from_secs(10),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: "file://./sandur-data".to_owned(),
            listen: "127.0.0.1:3100".to_owned(),
            admin_listen: String::new(),
            insecure_listen: false,
            memory_limit: (machine::memory_bytes() / 2).clamp(128 * MIB, 1024 * GIB),
            cpu_threads: 0,
            limits_file: String::new(),
            otlp_grpc_listen: String::new(),
            auth: Auth::default(),
            tls: TlsSettings::default(),
            log: Log { format: "text".to_owned(), level: "info".to_owned() },
            self_logs: false,
            self_logs_tenant: TenantId::default_tenant().to_string(),
            scrape: Vec::new(),
            scrape_config: String::new(),
            relay_config: String::new(),
            relay_spool_dir: String::new(),
            relay_tenant: TenantId::default_tenant().to_string(),
            scrape_interval: Duration::from_secs(15),
            scrape_tenant: TenantId::default_tenant().to_string(),
            carbon: Carbon::default(),
            http: Http::default(),
            query: Query::default(),
            graphite: Graphite::default(),
            storage: Storage {
                max_concurrent_reads: 128,
                max_concurrent_writes: 32,
                max_waiting: 16_384,
                hedging_at: Duration::from_millis(50),
                hedging_max_percent: 5,
                retry_max_percent: 10,
                prices: Prices::default(),
            },
            cache: CacheSettings {
                dir: String::new(),
                size: 0,
                flash: "auto".to_owned(),
                write_per_day: 0,
                tenant_share: TenantShares::default(),
            },
            wal: Wal {
                group_bytes: 8 * MIB,
                group_age: Duration::from_millis(500),
                requests_per_second: 2.0,
                requests_burst: 600,
            },
            flush: Flush { max_age: Duration::from_secs(300), max_bytes: 128 * MIB },
            compaction: Compaction {
                interval: Duration::from_secs(10),
                block_max: 4 * GIB,
                delete_request_cancel_period: Duration::from_secs(24 * 3_600),
                delete_max_interval: Duration::from_secs(24 * 3_600),
            },
            retention: Retention {
                change_delay: Duration::from_secs(60),
                interval: Duration::from_secs(60),
                delete_delay: Duration::from_secs(3_600),
            },
            cluster: Cluster {
                poll_interval: Duration::from_secs(1),
                heartbeat_interval: Duration::from_secs(10),
                dead_after: Duration::from_secs(30),
            },
            limits: Limits::default(),
            tenants: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The limits of a tenant.
    pub fn limits_of(&self, tenant: &str) -> &Limits {
        self.tenants.get(tenant).unwrap_or(&self.limits)
    }
}

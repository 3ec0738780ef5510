//! The settings of a server with their defaults. Plain data: the option table gives them their names.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_base::units::{GIB, KIB, MIB};
use sandur_model::{Limits, Roles, TenantId};
use sandur_runtime::machine;
use sandur_store::Prices;
use sandur_terminal::logging::Log;

use super::notify_settings::Notify;
use super::tenant_shares::TenantShares;

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The store: `file://`, `s3://`, `gs://` or `az://`, or a path.
    pub store: String,
    /// Address of the HTTP listener.
    pub listen: String,
    /// Address of the listener for operators; empty: the HTTP listener serves all.
    pub admin_listen: String,
    /// Allows listening beyond loopback without credentials.
    pub insecure_listen: bool,
    /// Bytes of memory that the process may use.
    pub memory_limit: u64,
    /// Threads for computation; 0: one per processor.
    pub cpu_threads: u64,
    /// File with limits of single tenants that is reloaded while the server runs; empty: none.
    pub limits_file: String,
    /// Address of the listener for OTLP over gRPC; empty: only the HTTP listener accepts it.
    pub otlp_grpc_listen: String,
    /// Authentication and tenants.
    pub auth: Auth,
    /// TLS of the listeners.
    pub tls: TlsSettings,
    /// Log output.
    pub log: Log,
    /// Stores the server's own log in its own store.
    pub self_logs: bool,
    /// Tenant of the server's own log.
    pub self_logs_tenant: String,
    /// Addresses or URLs of targets to scrape.
    pub scrape: Vec<String>,
    /// Prometheus configuration file whose `scrape_configs` are scraped; empty: none.
    pub scrape_config: String,
    /// Files and folders of rules; empty: none.
    pub rules: Vec<String>,
    /// Folder of dashboards for the explorer; empty: none.
    pub dashboards: String,
    /// Evaluates the built-in rules about this server, over its own metrics.
    pub self_rules: bool,
    /// URLs of Alertmanagers.
    pub alertmanager_url: Vec<String>,
    /// Evaluation of rules.
    pub ruler: Ruler,
    /// Notifications about groups of alerts.
    pub notify: Notify,
    /// Configuration file of the relay inside of the server; empty: none.
    pub relay_config: String,
    /// Directory where the relay stores lines for targets that are unreachable; empty: that of its file.
    pub relay_spool_dir: String,
    /// Tenant of the points that the relay stores in this server.
    pub relay_tenant: String,
    /// Interval of scrapes of the targets of `scrape`.
    pub scrape_interval: Duration,
    /// Tenant of scraped samples.
    pub scrape_tenant: String,
    /// Listeners of Graphite's protocols.
    pub carbon: Carbon,
    /// HTTP listener.
    pub http: Http,
    /// Queries.
    pub query: Query,
    /// Graphite's configuration files.
    pub graphite: Graphite,
    /// Limits on requests to the store.
    pub storage: Storage,
    /// Cache of pieces of blocks in memory and on flash.
    pub cache: CacheSettings,
    /// Write-ahead log.
    pub wal: Wal,
    /// Flushes from memory to blocks.
    pub flush: Flush,
    /// Merges of blocks.
    pub compaction: Compaction,
    /// Deletion of data.
    pub retention: Retention,
    /// Processes that share a bucket.
    pub cluster: Cluster,
    /// Limits of tenants without limits of their own.
    pub limits: Limits,
    /// Limits of single tenants.
    pub tenants: BTreeMap<String, Limits>,
    /// Places in the file of keys that were removed and have no effect.
    pub removed: Vec<String>,
}

/// Authentication and tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// File of credentials; empty: every client has all permissions.
    pub file: String,
    /// Refuses requests without `X-Scope-OrgID`.
    pub require_tenant: bool,
}

/// TLS of the listeners.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsSettings {
    /// File of certificates; empty: no TLS.
    pub cert_file: String,
    /// File of the key of the first certificate.
    pub key_file: String,
    /// File of the authorities of client certificates; empty: clients need none.
    pub client_ca_file: String,
    /// `require` or `optional`.
    pub client_auth: String,
}

impl TlsSettings {
    /// Whether only clients with a certificate can connect.
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

/// Evaluation of rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Ruler {
    /// Tenant whose data rules of files read and write.
    pub tenant: String,
    /// How often stored rules are looked for.
    pub poll_interval: Duration,
    /// URL of this server; empty: that of the HTTP listener.
    pub external_url: String,
    /// Labels of every alert that is sent, as `NAME=VALUE`.
    pub external_labels: Vec<String>,
    /// Interval of groups that name none.
    pub evaluation_interval: Duration,
    /// Longest evaluation of one rule.
    pub evaluation_timeout: Duration,
    /// Maximum number of groups.
    pub max_groups: u64,
    /// Maximum number of rules.
    pub max_rules: u64,
    /// Maximum number of series of a rule.
    pub max_series: u64,
    /// Minimum time between two notifications about an unchanged alert.
    pub resend_delay: Duration,
    /// Longest outage after which alerts are restored.
    pub for_outage_tolerance: Duration,
    /// Minimum time until a restored alert fires.
    pub for_grace_period: Duration,
    /// File with Alertmanagers and relabelling of alerts; empty: none.
    pub alerting_config_file: String,
    /// Authorities of Alertmanagers; empty: those of the system.
    pub alertmanager_ca_file: String,
    /// Bearer token for Alertmanagers; empty: none.
    pub alertmanager_token_file: String,
}

impl Default for Ruler {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            tenant: TenantId::default_tenant().to_string(),
            poll_interval: Duration::from_secs(30),
            external_url: String::new(),
            external_labels: Vec::new(),
            evaluation_interval: minutes(1),
            evaluation_timeout: minutes(1),
            max_groups: 1_000,
            max_rules: 20_000,
            max_series: 100_000,
            resend_delay: minutes(1),
            for_outage_tolerance: minutes(60),
            for_grace_period: minutes(10),
            alerting_config_file: String::new(),
            alertmanager_ca_file: String::new(),
            alertmanager_token_file: String::new(),
        }
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
    /// Maximum bytes of a connection that were received and are not durable yet.
    pub window: u64,
    /// Maximum bytes of a message with a length prefix.
    pub max_frame_bytes: u64,
    /// Timeout for receiving a complete message.
    pub message_timeout: Duration,
    /// Maximum time without input on a connection.
    pub idle_timeout: Duration,
    /// Maximum number of connections of all listeners.
    pub max_connections: u64,
    /// Tenant of points; empty: the default tenant.
    pub tenant: String,
    /// Tenant of the pickle listener; empty: that of `tenant`.
    pub pickle_tenant: String,
    /// Tenant of the protobuf listener; empty: that of `tenant`.
    pub protobuf_tenant: String,
    /// Tenants by the prefix of names, as `PREFIX=TENANT`.
    pub tenant_by_prefix: Vec<String>,
    /// Whether the first node of a path is the tenant.
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

/// HTTP listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Maximum number of connections.
    pub max_connections: u64,
    /// Maximum number of connections per address; 0: half of all.
    pub max_connections_per_address: u64,
    /// Minimum rate of a client that sends a body or reads an answer, bytes per second; 0: no limit.
    pub min_client_rate: u64,
    /// Timeout for the head of a request.
    pub header_timeout: Duration,
    /// Maximum pause between two requests of a connection.
    pub idle_timeout: Duration,
    /// Maximum pause while a body is received.
    pub body_idle_timeout: Duration,
    /// Maximum pause while an answer is read.
    pub write_idle_timeout: Duration,
    /// Time for running requests to end when the server stops.
    pub drain_timeout: Duration,
    /// Host names, in addition to those of loopback, that `Host` and `Origin` may contain.
    pub allowed_hosts: Vec<String>,
}

/// Queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Maximum number of concurrent queries; 0: two per processor, at least four.
    pub max_concurrent: u64,
    /// Maximum number of queued queries of one tenant.
    pub max_queued: u64,
    /// Whether queries may name several tenants.
    pub multi_tenant: bool,
    /// Whether results of metric range queries are cached.
    pub cache_results: bool,
    /// Timeout of queries of samples.
    pub timeout: Duration,
    /// Maximum number of samples that a query may read.
    pub max_samples: u64,
    /// Maximum age of the sample that is the value at an instant.
    pub lookback_delta: Duration,
    /// Maximum age of the view of the store without a warning in answers.
    pub max_view_age: Duration,
    /// Queries that take at least as long are logged with `latency=slow`, and kept in the list of slow
    /// queries.
    pub slow_threshold: Duration,
    /// Lines of queries in the log of the process: `selected` or `all`.
    pub log: String,
}

/// Graphite's configuration files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphite {
    /// Path of a `storage-schemas.conf`; empty: none.
    pub schemas: String,
    /// Path of a `storage-aggregation.conf`; empty: none.
    pub aggregation: String,
    /// Whether series are deleted after the last archive of their section.
    pub expire: bool,
    /// Whether points become rollups after the archives of their section.
    pub rollups: bool,
}

/// Limits on requests to a store that other programs use as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Maximum number of concurrent block reads.
    pub max_concurrent_reads: u64,
    /// Maximum number of concurrent block writes.
    pub max_concurrent_writes: u64,
    /// Maximum number of requests of a lane that wait for a slot.
    pub max_waiting: u64,
    /// Minimum time before a read is hedged.
    pub hedging_at: Duration,
    /// Maximum number of hedged requests per hundred reads.
    pub hedging_max_percent: u64,
    /// Maximum number of retries per hundred requests.
    pub retry_max_percent: u64,
    /// Prices of requests.
    pub prices: Prices,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            max_concurrent_reads: 128,
            max_concurrent_writes: 32,
            max_waiting: 16_384,
            hedging_at: Duration::from_millis(50),
            hedging_max_percent: 5,
            retry_max_percent: 10,
            prices: Prices::default(),
        }
    }
}

/// Cache of pieces of blocks in memory and on flash.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// Directory of the flash tier; empty: none.
    pub dir: String,
    /// Size of the flash tier in bytes; 0: its present size, or half of the free space.
    pub size: u64,
    /// `auto`: with a bucket; `on`: also with a local directory; `off`.
    pub flash: String,
    /// Maximum bytes written to flash in 24 hours; 0: no limit.
    pub write_per_day: u64,
    /// Maximum share of a full flash tier per tenant.
    pub tenant_share: TenantShares,
}

/// Write-ahead log.
#[derive(Clone, Debug, PartialEq)]
pub struct Wal {
    /// Maximum bytes of one group commit in a bucket.
    pub group_bytes: u64,
    /// Maximum age of one group commit in a bucket.
    pub group_age: Duration,
    /// Rate of the budget of requests to a bucket, in group commits per second.
    pub requests_per_second: f64,
    /// Size of the budget, in group commits.
    pub requests_burst: u64,
}

/// Flushes from memory to blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Flush {
    /// Age of the oldest row in memory that starts a flush.
    pub max_age: Duration,
    /// Raw bytes in memory that start a flush.
    pub max_bytes: u64,
}

/// Merges of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Compaction {
    /// Interval at which compaction looks for work.
    pub interval: Duration,
    /// Raw bytes of a block from which it is not merged any more; 0: this process merges nothing.
    pub block_max: u64,
    /// How long a delete request can be cancelled before its rows are removed.
    pub delete_request_cancel_period: Duration,
    /// Maximum `max_interval` of a delete request.
    pub delete_max_interval: Duration,
}

/// Processes that share a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Stable id of this node; empty: kept in a file of the cache or store directory.
    pub node_id: String,
    /// Address at which others reach this process; empty: derived from `listen`.
    pub advertise_address: String,
    /// Failure domain; empty: none.
    pub zone: String,
    /// The work that this process does.
    pub roles: Roles,
    /// Interval at which the changes of other processes are read.
    pub poll_interval: Duration,
    /// Interval of heartbeats.
    pub heartbeat_interval: Duration,
    /// Silence after which another process is considered dead and its WAL is adopted.
    pub dead_after: Duration,
    /// The longest interval of `poll_interval` while all other processes announce changes.
    pub poll_interval_idle: Duration,
    /// The name of the cluster in gossip; empty: the store.
    pub name: String,
    /// The file of the secret of the cluster.
    pub secret_file: String,
    /// Whether to gossip: auto, on, off.
    pub gossip: String,
    /// The address of the socket of gossip.
    pub gossip_listen: String,
    /// The address of gossip that others are told.
    pub gossip_advertise: String,
    /// Addresses of gossip of other nodes.
    pub seeds: Vec<String>,
}

/// Deletion of data.
#[derive(Clone, Debug, PartialEq)]
pub struct Retention {
    /// How long a changed retention must be unchanged before it removes anything.
    pub change_delay: Duration,
    /// Interval at which unused objects are searched.
    pub interval: Duration,
    /// How long a removed block stays in the store, for readers that still use it.
    pub delete_delay: Duration,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            node_id: String::new(),
            advertise_address: String::new(),
            zone: String::new(),
            roles: Roles::ALL,
            poll_interval: Duration::from_secs(1),
            heartbeat_interval: Duration::from_secs(10),
            dead_after: Duration::from_secs(30),
            poll_interval_idle: Duration::from_secs(5),
            name: String::new(),
            secret_file: String::new(),
            gossip: "auto".to_owned(),
            gossip_listen: String::new(),
            gossip_advertise: String::new(),
            seeds: Vec::new(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            max_connections: 4_096,
            max_connections_per_address: 0,
            // One megabyte, a usual request of agents, takes at most a minute.
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
            slow_threshold: Duration::from_secs(1),
            log: "selected".to_owned(),
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
            rules: Vec::new(),
            dashboards: String::new(),
            self_rules: false,
            alertmanager_url: Vec::new(),
            ruler: Ruler::default(),
            notify: Notify::default(),
            relay_config: String::new(),
            relay_spool_dir: String::new(),
            relay_tenant: TenantId::default_tenant().to_string(),
            scrape_interval: Duration::from_secs(15),
            scrape_tenant: TenantId::default_tenant().to_string(),
            carbon: Carbon::default(),
            http: Http::default(),
            query: Query::default(),
            graphite: Graphite::default(),
            storage: Storage::default(),
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
            cluster: Cluster::default(),
            limits: Limits::default(),
            tenants: BTreeMap::new(),
            removed: Vec::new(),
        }
    }
}

impl Settings {
    /// The limits of a tenant.
    pub fn limits_of(&self, tenant: &str) -> &Limits {
        self.tenants.get(tenant).unwrap_or(&self.limits)
    }
}

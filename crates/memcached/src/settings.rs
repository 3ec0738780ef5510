//! The settings of the server: the command line, validated.
//!
//! Invariants: [`Settings`] do not change after the start. [`Tuning`] holds the numbers that memcached's
//! administrative commands change and `stats settings` shows. This server tunes itself, so most of them
//! have no other effect. Those of the flash tier that do are applied in
//! [`extstore_options`](super::extstore_options).

use std::path::PathBuf;

use super::slab_classes::SlabClasses;

/// All options of the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TCP port; 0 is none, -1 is any free one.
    pub tcp_port: i32,
    /// UDP port; 0 is none, -1 is any free one.
    pub udp_port: i32,
    /// Addresses to listen on; if empty, every address of the machine.
    pub listen: Vec<ListenAddress>,
    /// The argument of `-l`, as `stats settings` shows it.
    pub listen_text: Option<String>,
    /// Address on which metrics are served over HTTP.
    pub metrics_listen: Option<String>,
    /// Path of a Unix socket to listen on instead of the network.
    pub unix_socket: Option<PathBuf>,
    /// Access mask of the Unix socket.
    pub unix_mask: u32,
    /// The largest number of connections that wait to be accepted.
    pub backlog: i32,
    /// Bytes of memory for items.
    pub memory_bytes: u64,
    /// Bytes of that memory that tests treat as used.
    pub memory_taken: u64,
    /// Whether items are evicted to make room for new ones.
    pub evict: bool,
    /// The largest number of connections at a time.
    pub connections_max: usize,
    /// Whether connections beyond that are answered with an error instead of waiting.
    pub refuse_fast: bool,
    /// Worker threads.
    pub threads: usize,
    /// The largest item in bytes.
    pub item_bytes_max: u64,
    /// Number of commands of one connection that are answered before other connections are served.
    pub commands_per_turn: usize,
    /// Seconds after which a silent connection is closed; 0 is never.
    pub idle_timeout_s: u32,
    /// The protocols of listeners.
    pub protocol: Binding,
    /// Whether items have version numbers.
    pub cas: bool,
    /// Whether `flush_all` is allowed.
    pub flush_allowed: bool,
    /// Whether `stats cachedump`, `stats detail` and `lru_crawler metadump` are permitted.
    pub dump_allowed: bool,
    /// Whether `watch` is allowed.
    pub watch_allowed: bool,
    /// Whether `shutdown` is allowed.
    pub shutdown_allowed: bool,
    /// Whether clients of the binary protocol must authenticate.
    pub sasl: bool,
    /// Path of the user file of the text protocol.
    pub auth_file: Option<PathBuf>,
    /// Certificates and keys; `None` turns TLS off.
    pub tls: Option<TlsSettings>,
    /// Files of the flash tier.
    pub flash: Vec<FlashPath>,
    /// Which data of the flash tier is used again after a restart.
    pub warm: Warm,
    /// Name of the user to run as.
    pub user: Option<String>,
    /// Path of the file for the process id.
    pub pid_file: Option<PathBuf>,
    /// Path of the file that preserves the items in memory across a graceful stop.
    pub memory_file: Option<PathBuf>,
    /// Whether to run in the background.
    pub daemon: bool,
    /// Log level: the number of `-v`.
    pub verbosity: u32,
    /// The character after the prefix of a key, for `stats detail`.
    pub prefix_delimiter: u8,
    /// Whether `stats detail` counts from the start.
    pub detail: bool,
    /// Whether sizes are counted for `stats sizes`.
    pub track_sizes: bool,
    /// Bytes that are buffered for one watcher.
    pub watcher_bytes: usize,
    /// The largest number of bytes of input buffers, over all workers; 0 is no limit.
    pub buffer_bytes_max: u64,
    /// Whether the commands that memcached's own test suite needs are enabled.
    pub test_commands: bool,
    /// Growth factor of the slab classes that `stats` shows.
    pub slab_factor: f64,
    /// Least space for key and value in the smallest slab class, in bytes.
    pub slab_chunk_least: u64,
    /// Options of memcached, most of which have no effect here.
    pub tuning: Tuning,
    /// Whether to lock memory so that it is not swapped out.
    pub lock_memory: bool,
    /// Given options that have no effect, for the log.
    pub ignored: Vec<Ignored>,
}

/// An option that has no effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its name.
    pub option: &'static str,
    /// Why it has no effect.
    pub why: &'static str,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host name or address.
    pub host: String,
    /// The port; the default is that of `-p`.
    pub port: Option<u16>,
    /// The protocol of this address; the default is that of the server.
    pub protocol: Option<Binding>,
    /// The encryption of this address; the default is that of the server.
    pub tls: Option<TlsUse>,
}

/// How an address uses TLS if the server has certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsUse {
    /// No encryption.
    Off,
    /// The server shows a certificate.
    Server,
    /// Server and client show certificates.
    Mutual,
}

/// The protocols of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Detected from the first byte of a connection.
    Auto,
    /// Text and meta commands.
    Ascii,
    /// Binary packets.
    Binary,
}

impl Binding {
    /// Returns the protocol with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" | "negotiating" => Some(Self::Auto),
            "ascii" => Some(Self::Ascii),
            "binary" => Some(Self::Binary),
            _ => None,
        }
    }

    /// Returns the name that `stats settings` shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// The files of TLS, and the requirements for client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Path of the server's certificate chain.
    pub chain: PathBuf,
    /// Path of the server's key.
    pub key: PathBuf,
    /// Path of the authorities that sign client certificates.
    pub authorities: Option<PathBuf>,
    /// 0: client certificates are not requested; 1: optional; 2: required; 3: requested once.
    pub verify_mode: u8,
    /// The lowest version: 0 to 3 are TLS 1.0 to 1.3. Versions below 1.2 are raised to 1.2.
    pub least_version: u8,
    /// The list of ciphers, which is only shown.
    pub ciphers: Option<String>,
    /// Whether sessions can be resumed.
    pub session_cache: bool,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            chain: PathBuf::new(),
            key: PathBuf::new(),
            authorities: None,
            verify_mode: 0,
            least_version: 2,
            ciphers: None,
            session_cache: false,
        }
    }
}

/// One file of the flash tier: `FILE:SIZE[:BUCKET]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashPath {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it only stores values that are moved out of the other files, as memcached's buckets
    /// `compact`, `coldcompact` and `old`.
    pub kept: bool,
}

/// Which data of the flash tier is used again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// None, as in memcached.
    Off,
    /// All data after a clean stop, none after a crash.
    Clean,
    /// All data that survived. After a crash, a value that was overwritten just before it may be served
    /// again.
    Crash,
}

/// Numbers that can be shown and set; most have no other effect.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are memcached's
pub struct Tuning {
    pub hashpower: u32,
    pub hash_algorithm: String,
    pub slab_reassign: bool,
    pub slab_automove: u32,
    pub slab_automove_ratio: f64,
    pub slab_automove_window: u32,
    pub slab_automove_freeratio: f64,
    pub slab_chunk_max: u64,
    pub tail_repair_time: u32,
    pub lru_crawler: bool,
    pub lru_crawler_sleep: u32,
    pub lru_crawler_tocrawl: u32,
    pub lru_maintainer: bool,
    pub lru_segmented: bool,
    pub hot_lru_pct: u32,
    pub warm_lru_pct: u32,
    pub hot_max_factor: f64,
    pub warm_max_factor: f64,
    pub temp_lru: bool,
    pub temporary_ttl: u32,
    pub worker_logbuf: u64,
    pub drop_privileges: bool,
    pub ext_page_size: u64,
    pub ext_wbuf_size: u64,
    pub ext_threads: u32,
    pub ext_item_size: u32,
    pub ext_item_age: u32,
    pub ext_low_ttl: u32,
    pub ext_recache_rate: u32,
    pub ext_compact_under: u32,
    pub ext_drop_under: u32,
    pub ext_max_sleep: u32,
    pub ext_max_frag: f64,
    pub ext_drop_unread: bool,
    pub ssl_keyformat: i32,
    pub ssl_wbuf_size: u64,
    pub ssl_kernel_tls: bool,
    pub napi_ids: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tcp_port: 11211,
            udp_port: 0,
            listen: Vec::new(),
            listen_text: None,
            metrics_listen: None,
            unix_socket: None,
            unix_mask: 0o700,
            backlog: 1024,
            memory_bytes: 64 << 20,
            memory_taken: 0,
            evict: true,
            connections_max: 1024,
            refuse_fast: true,
            threads: sandur_runtime::machine::processors(),
            item_bytes_max: 1 << 20,
            commands_per_turn: 20,
            idle_timeout_s: 0,
            protocol: Binding::Auto,
            cas: true,
            flush_allowed: true,
            dump_allowed: true,
            watch_allowed: true,
            shutdown_allowed: false,
            sasl: false,
            auth_file: None,
            tls: None,
            flash: Vec::new(),
            warm: Warm::Clean,
            user: None,
            pid_file: None,
            memory_file: None,
            daemon: false,
            verbosity: 0,
            prefix_delimiter: b':',
            detail: false,
            track_sizes: false,
            watcher_bytes: 256 << 10,
            buffer_bytes_max: 0,
            test_commands: false,
            slab_factor: 1.25,
            slab_chunk_least: 48,
            tuning: Tuning::default(),
            lock_memory: false,
            ignored: Vec::new(),
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            hashpower: 16,
            hash_algorithm: "murmur3".to_owned(),
            slab_reassign: true,
            slab_automove: 1,
            slab_automove_ratio: 0.8,
            slab_automove_window: 10,
            slab_automove_freeratio: 0.01,
            slab_chunk_max: 512 << 10,
            tail_repair_time: 0,
            lru_crawler: true,
            lru_crawler_sleep: 100,
            lru_crawler_tocrawl: 0,
            lru_maintainer: true,
            lru_segmented: true,
            hot_lru_pct: 20,
            warm_lru_pct: 40,
            hot_max_factor: 0.2,
            warm_max_factor: 2.0,
            temp_lru: false,
            temporary_ttl: 61,
            worker_logbuf: 64 << 10,
            drop_privileges: false,
            ext_page_size: 64 << 20,
            ext_wbuf_size: 4 << 20,
            ext_threads: 1,
            ext_item_size: 512,
            ext_item_age: u32::MAX,
            ext_low_ttl: 0,
            ext_recache_rate: 2000,
            ext_compact_under: 0,
            ext_drop_under: 0,
            ext_max_sleep: 1_000_000,
            ext_max_frag: 0.8,
            ext_drop_unread: false,
            ssl_keyformat: 1,
            ssl_wbuf_size: 16 << 10,
            ssl_kernel_tls: false,
            napi_ids: 0,
        }
    }
}

impl Settings {
    /// Returns the slab classes that `stats` shows.
    pub(super) fn slab_classes(&self) -> SlabClasses {
        SlabClasses::new(self.slab_factor, self.slab_chunk_least, self.tuning.slab_chunk_max, self.cas)
    }
}

//! What the server was told to be: the command line, checked.
//!
//! Invariants: [`Settings`] never change after the start. [`Tuning`] holds the numbers that
//! memcached's administrative commands change and its `stats settings` shows; ours tunes itself, so
//! apart from showing them most have no effect. Those of the flash tier that have are in
//! [`extstore_options`](super::extstore_options).

use std::path::PathBuf;

use super::slab_classes::SlabClasses;

/// Everything that the command line says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// TCP port; 0 is none, -1 any free one.
    pub tcp_port: i32,
    /// UDP port; 0 is none, -1 any free one.
    pub udp_port: i32,
    /// Addresses to listen on; none is every address of the machine.
    pub listen: Vec<ListenAddress>,
    /// The argument of `-l`, as `stats settings` shows it.
    pub listen_text: Option<String>,
    /// Unix socket to listen on instead of the network.
    pub unix_socket: Option<PathBuf>,
    /// Access mask of the Unix socket.
    pub unix_mask: u32,
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// Bytes of memory for items.
    pub memory_bytes: u64,
    /// Bytes of that memory that tests pretend are taken.
    pub memory_taken: u64,
    /// Whether items make way for new ones.
    pub evict: bool,
    /// Most connections at a time.
    pub connections_max: usize,
    /// Whether connections beyond that are answered with an error instead of waiting.
    pub refuse_fast: bool,
    /// Worker threads.
    pub threads: usize,
    /// Largest item in bytes.
    pub item_bytes_max: u64,
    /// Commands of one connection that are answered before others get their turn.
    pub commands_per_turn: usize,
    /// Seconds after which a silent connection is closed; 0 is never.
    pub idle_timeout_s: u32,
    /// Which protocols are spoken.
    pub protocol: Binding,
    /// Whether items have version numbers.
    pub cas: bool,
    /// Whether `flush_all` is allowed.
    pub flush_allowed: bool,
    /// Whether `stats cachedump`, `stats detail` and `lru_crawler metadump` are allowed.
    pub dump_allowed: bool,
    /// Whether `watch` is allowed.
    pub watch_allowed: bool,
    /// Whether `shutdown` is allowed.
    pub shutdown_allowed: bool,
    /// Whether clients of the binary protocol must authenticate.
    pub sasl: bool,
    /// Users of the text protocol.
    pub auth_file: Option<PathBuf>,
    /// Transport encryption.
    pub tls: Option<TlsSettings>,
    /// Files of the flash tier.
    pub flash: Vec<FlashPath>,
    /// What of the flash tier is used again after a restart.
    pub warm: Warm,
    /// User to run as.
    pub user: Option<String>,
    /// File for the process number.
    pub pid_file: Option<PathBuf>,
    /// File that keeps items in memory over a graceful stop.
    pub memory_file: Option<PathBuf>,
    /// Whether to run in the background.
    pub daemon: bool,
    /// Number of `-v`.
    pub verbosity: u32,
    /// What separates the prefix of a key, for `stats detail`.
    pub prefix_delimiter: u8,
    /// Whether `stats detail` collects from the start.
    pub detail: bool,
    /// Whether sizes are counted for `stats sizes`.
    pub track_sizes: bool,
    /// Bytes that are held for one watcher.
    pub watcher_bytes: usize,
    /// Bytes that commands on their way in may take, over all workers; 0 is no limit.
    pub buffer_bytes_max: u64,
    /// Whether the commands of memcached's own test suite that turn the clock are there.
    pub test_commands: bool,
    /// Growth factor and least chunk of the slab classes that `stats` shows.
    pub slab_factor: f64,
    /// See `slab_factor`, in bytes.
    pub slab_chunk_least: u64,
    /// Knobs of memcached that tune nothing here.
    pub tuning: Tuning,
    /// Whether memory shall never be swapped out.
    pub lock_memory: bool,
    /// Options that were given and do nothing, to say so in the log.
    pub ignored: Vec<Ignored>,
}

/// An option that does nothing here.
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
    /// Port; that of `-p` when none is given.
    pub port: Option<u16>,
    /// Protocol of this address only.
    pub protocol: Option<Binding>,
    /// Encryption of this address only.
    pub tls: Option<TlsUse>,
}

/// How an address uses TLS when the server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsUse {
    /// In the clear.
    Off,
    /// With a certificate of the server.
    Server,
    /// With certificates of both sides.
    Mutual,
}

/// Which protocols a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The first byte of a connection says it.
    Auto,
    /// Text and meta commands.
    Ascii,
    /// Binary.
    Binary,
}

impl Binding {
    /// The protocol of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" | "negotiating" => Some(Self::Auto),
            "ascii" => Some(Self::Ascii),
            "binary" => Some(Self::Binary),
            _ => None,
        }
    }

    /// As `stats settings` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Ascii => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// Certificates and what clients must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// File with the server's certificate chain.
    pub chain: PathBuf,
    /// File with its key.
    pub key: PathBuf,
    /// File with the authorities that sign clients.
    pub authorities: Option<PathBuf>,
    /// 0: clients show nothing, 1: may, 2: must show a certificate, 3: once.
    pub verify_mode: u8,
    /// 0 to 3: TLS 1.0 to 1.3; what is below 1.2 is raised to it.
    pub least_version: u8,
    /// Shown only.
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
    /// Whether it only takes what is moved out of the others, as memcached's buckets `compact`,
    /// `coldcompact` and `old`.
    pub kept: bool,
}

/// What of the flash tier is used again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warm {
    /// Nothing, as memcached does.
    Off,
    /// Everything after a clean stop, nothing after a crash.
    Clean,
    /// Everything that survived: a value overwritten in the last instant before a crash may come back.
    Crash,
}

/// Numbers that are shown and can be set; most tune nothing.
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
            unix_socket: None,
            unix_mask: 0o700,
            backlog: 1024,
            memory_bytes: 64 << 20,
            memory_taken: 0,
            evict: true,
            connections_max: 1024,
            refuse_fast: true,
            threads: sandur_base::machine::processors(),
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
    /// The slab classes that `stats` shows.
    pub(super) fn slab_classes(&self) -> SlabClasses {
        SlabClasses::new(self.slab_factor, self.slab_chunk_least, self.tuning.slab_chunk_max, self.cas)
    }
}

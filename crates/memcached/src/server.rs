//! What all workers of a server share.
//!
//! Invariant: everything here is either fixed at the start, atomic, or behind a lock that is held for
//! moments; no lock is held while another is taken.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::{Env, Shutdown};

use sandur_cache::device::FilePart;
use sandur_cache::flash::{FlashOptions, Warm as WarmFlash};
use sandur_cache::{Cache, CacheOptions, CacheStats};

use super::authentication::Users;
use super::connections::Connections;
use super::counters::{Counters, Sums};
use super::error::Error;
use super::evictions::{EvictionCounts, Evictions};
use super::log::Log;
use super::prefixes::Prefixes;
use super::settings::{Settings, TlsUse, Tuning, Warm};
use super::slab_classes::SlabClasses;
use super::survey::Survey;
use super::time;
use super::tls::{Encryption, TlsCounts, TlsStream};
use super::watch::Watchers;

/// A server.
pub(super) struct Server {
    pub env: Env,
    pub cache: Cache,
    pub settings: Settings,
    pub classes: SlabClasses,
    pub connections: Connections,
    pub watchers: Arc<Watchers>,
    pub evictions: Arc<Evictions>,
    pub prefixes: Prefixes,
    pub users: Users,
    pub survey: Survey,
    /// Each worker's counters.
    pub workers: Vec<Arc<Counters>>,
    /// Ends the server.
    pub shutdown: Shutdown,
    /// Whether a dump of all keys runs.
    pub dumping: AtomicBool,
    /// Whether a stop was asked for gracefully.
    pub graceful: AtomicBool,
    verbosity: AtomicU32,
    log: Arc<dyn Log>,
    /// The second of the start.
    pub started: u32,
    /// The second of the latest `flush_all`.
    pub flushed: AtomicU32,
    /// The highest power of two that memcached's table would have had: it never shrinks.
    pub index_power: AtomicU32,
    /// The memory limit as it was last set, in bytes.
    pub memory: AtomicI64,
    /// The minute after the last one in which a request by HTTP was told.
    told_http: AtomicU32,
    /// How far tests have turned the clock.
    turned_ns: AtomicI64,
    encryption: Option<Encryption>,
    tls_counts: Arc<TlsCounts>,
    tuning: Mutex<Tuning>,
    base: Mutex<Base>,
}

/// What had been counted at the latest `stats reset`.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    pub sums: Sums,
    pub cache: CacheStats,
    pub gone: Vec<EvictionCounts>,
    pub connections: u64,
    pub rejected: u64,
}

impl Server {
    /// A server with an open cache, without connections.
    pub fn new(env: Env, settings: Settings, shutdown: Shutdown, log: Arc<dyn Log>) -> Result<Self, Error> {
        let classes = settings.slab_classes();
        let watchers = Arc::new(Watchers::default());
        let evictions = Arc::new(Evictions::new(classes.clone(), Arc::clone(&watchers)));
        let listener = Arc::clone(&evictions);
        let options = CacheOptions {
            memory: settings
                .memory_bytes
                .saturating_sub(settings.memory_taken)
                .max(sandur_cache::LEAST_MEMORY),
            max_value: settings.item_bytes_max,
            evict: settings.evict,
            listener: Some(listener),
            flash: flash_options(&settings),
            ..CacheOptions::default()
        };
        let cache = Cache::open(&env, options)?;
        let workers: Vec<_> = (0..settings.threads).map(|_| Arc::new(Counters::default())).collect();
        let base = Base {
            sums: Sums::of(workers.iter().map(Arc::as_ref)),
            gone: evictions.all(),
            ..Base::default()
        };
        let tls_counts = Arc::new(TlsCounts::default());
        tls_counts.refreshed.store(time::now(&env), Ordering::Relaxed);
        let encryption = match &settings.tls {
            Some(tls) => Some(Encryption::load(tls, Arc::clone(&tls_counts))?),
            None => None,
        };
        Ok(Self {
            told_http: AtomicU32::new(0),
            turned_ns: AtomicI64::new(0),
            encryption,
            tls_counts,
            cache,
            classes,
            connections: Connections::default(),
            watchers,
            evictions,
            prefixes: Prefixes::new(settings.detail, settings.prefix_delimiter),
            users: Users::load(&settings)?,
            survey: Survey::default(),
            workers,
            shutdown,
            dumping: AtomicBool::new(false),
            graceful: AtomicBool::new(false),
            verbosity: AtomicU32::new(settings.verbosity),
            log,
            started: time::now(&env),
            flushed: AtomicU32::new(0),
            index_power: AtomicU32::new(0),
            memory: AtomicI64::new(i64::try_from(settings.memory_bytes).unwrap_or(i64::MAX)),
            tuning: Mutex::new(settings.tuning.clone()),
            base: Mutex::new(base),
            env,
            settings,
        })
    }

    /// How much is logged.
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Says that a connection was ended because it asked by HTTP; once in a minute.
    pub fn tell_http_request(&self, now: u32) {
        let minute = now / 60 + 1;
        if self.told_http.swap(minute, Ordering::Relaxed) != minute {
            self.log.say(
                "ended a connection that asked by HTTP, which a web page may have made; others of this \
                 minute are counted as http_requests",
            );
        }
    }

    /// Logs as much from now on.
    pub fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level, Ordering::Relaxed);
        self.log.set_verbosity(level);
    }

    /// The numbers that can be set at run time.
    pub fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What had been counted at the latest reset.
    pub fn base(&self) -> Base {
        self.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts from now on.
    pub fn reset_stats(&self) {
        let base = Base {
            sums: self.sums(),
            cache: self.cache.stats(),
            gone: self.evictions.all(),
            connections: self.connections.total(),
            rejected: self.connections.rejected(),
        };
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = base;
        self.prefixes.clear();
    }

    /// Counters over all workers since the start.
    pub fn sums(&self) -> Sums {
        Sums::of(self.workers.iter().map(Arc::as_ref))
    }

    /// Voids all items, now or at a second to come.
    pub fn flush_all(&self, at: Option<u32>) {
        self.flushed.store(at.unwrap_or_else(|| time::now(&self.env)), Ordering::Relaxed);
        self.cache.flush_all(at);
    }

    /// The power of two of buckets that memcached's table would have with so many items now. It doubles when
    /// there are one and a half times as many items as buckets.
    pub fn index_power(&self, items: u64) -> u32 {
        let mut power = self.tuning().hashpower.max(self.index_power.load(Ordering::Relaxed));
        while power < 32 && items > (3u64 << power) / 2 {
            power += 1;
        }
        self.index_power.fetch_max(power, Ordering::Relaxed).max(power)
    }

    /// Moves the memory limit.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.memory.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.cache.set_memory_limit(bytes);
    }

    /// The memory limit in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.memory.load(Ordering::Relaxed).unsigned_abs()
    }

    /// A TLS stream for a new connection.
    pub fn encrypt(&self, how: TlsUse) -> Result<TlsStream, Error> {
        match &self.encryption {
            Some(encryption) => encryption.accept(how),
            None => Err(Error::Tls { reason: "the server was started without -Z".to_owned() }),
        }
    }

    /// Reads certificates and keys again.
    pub fn refresh_certificates(&self) -> Result<(), Error> {
        if let Some(encryption) = &self.encryption {
            encryption.refresh()?;
            self.tls_counts.refreshed.store(time::now(&self.env), Ordering::Relaxed);
        }
        Ok(())
    }

    /// What is counted about TLS.
    pub fn tls_counts(&self) -> &TlsCounts {
        &self.tls_counts
    }

    /// Turns the clock forward, for tests.
    pub fn turn_clock(&self, by: Duration) {
        let turned = self.turned_ns.fetch_add(by.as_nanos() as i64, Ordering::Relaxed) + by.as_nanos() as i64;
        self.env.set_clock_skew(Duration::from_nanos(turned.unsigned_abs()), true);
    }

    /// Asks the server to end.
    pub fn stop(&self, graceful: bool) {
        self.graceful.store(graceful, Ordering::Relaxed);
        self.shutdown.trigger();
    }
}

/// The flash tier that the settings name.
fn flash_options(settings: &Settings) -> Option<FlashOptions> {
    let part = |path: &super::settings::FlashPath| FilePart { path: path.path.clone(), bytes: path.bytes };
    // those for what is kept come last
    let (kept, general): (Vec<_>, Vec<_>) = settings.flash.iter().partition(|path| path.kept);
    let kept_bytes = if general.is_empty() { 0 } else { kept.iter().map(|path| path.bytes).sum() };
    let parts: Vec<FilePart> = general.into_iter().chain(kept).map(part).collect();
    let warm = match settings.warm {
        Warm::Off => WarmFlash::Off,
        Warm::Clean => WarmFlash::Clean,
        Warm::Crash => WarmFlash::Crash,
    };
    let value_bytes_max = settings.item_bytes_max;
    (!parts.is_empty()).then(|| FlashOptions {
        parts,
        kept_bytes,
        warm,
        value_bytes_max,
        ..FlashOptions::default()
    })
}

//! The state that all workers of a server share.
//!
//! Invariant: everything here is fixed at the start, atomic, or behind a lock that is held briefly; no
//! thread holds two of these locks at a time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::{Env, Shutdown};

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
    /// The counters of each worker.
    pub workers: Vec<Arc<Counters>>,
    /// Stops the server.
    pub shutdown: Shutdown,
    /// Whether a dump of all keys is running.
    pub dumping: AtomicBool,
    /// Whether the requested stop is a graceful one.
    pub graceful: AtomicBool,
    verbosity: AtomicU32,
    log: Arc<dyn Log>,
    /// The start, in seconds since the epoch.
    pub started: u32,
    /// The time of the latest `flush_all`, in seconds since the epoch.
    pub flushed: AtomicU32,
    /// The largest size, as a power of two, that memcached's hash table would have reached. It never
    /// shrinks.
    pub index_power: AtomicU32,
    /// The memory limit in bytes, as last set.
    pub memory: AtomicI64,
    /// The minute after the one in which an HTTP request was last logged.
    logged_http: AtomicU32,
    /// By how many nanoseconds tests have moved the clock.
    turned_ns: AtomicI64,
    encryption: Option<Encryption>,
    tls_counts: Arc<TlsCounts>,
    tuning: Mutex<Tuning>,
    base: Mutex<Base>,
}

/// The counters at the latest `stats reset`.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    pub sums: Sums,
    pub cache: CacheStats,
    pub gone: Vec<EvictionCounts>,
    pub connections: u64,
    pub rejected: u64,
}

impl Server {
    /// A server with an open cache and no connections.
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
        let users = Users::load(&settings)?;
        if settings.sasl && users.is_empty() {
            log.say(
                "-S without users: every client is refused; name a file of user:password lines in \
                 MEMCACHED_SASL_PWDB",
            );
        }
        let tls_counts = Arc::new(TlsCounts::default());
        tls_counts.refreshed.store(time::now(&env), Ordering::Relaxed);
        let encryption = match &settings.tls {
            Some(tls) => Some(Encryption::load(tls, Arc::clone(&tls_counts))?),
            None => None,
        };
        Ok(Self {
            logged_http: AtomicU32::new(0),
            turned_ns: AtomicI64::new(0),
            encryption,
            tls_counts,
            cache,
            classes,
            connections: Connections::default(),
            watchers,
            evictions,
            prefixes: Prefixes::new(settings.detail, settings.prefix_delimiter),
            users,
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

    /// Returns the log level.
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Logs that a connection was closed because it sent an HTTP request, at most once per minute.
    pub fn log_http_request(&self, now: u32) {
        let minute = now / 60 + 1;
        if self.logged_http.swap(minute, Ordering::Relaxed) != minute {
            self.log.say(
                "closed a connection that sent an HTTP request, possibly from a web page; further ones \
                 in this minute are counted as http_requests",
            );
        }
    }

    /// Sets the log level.
    pub fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level, Ordering::Relaxed);
        self.log.set_verbosity(level);
    }

    /// Returns the numbers that can be set at run time.
    pub fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters at the latest reset.
    pub fn base(&self) -> Base {
        self.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resets the counters: later statistics are relative to the present values.
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

    /// Returns the sums of the counters of all workers since the start.
    pub fn sums(&self) -> Sums {
        Sums::of(self.workers.iter().map(Arc::as_ref))
    }

    /// Invalidates all items, now or at a future second since the epoch.
    pub fn flush_all(&self, at: Option<u32>) {
        self.flushed.store(at.unwrap_or_else(|| time::now(&self.env)), Ordering::Relaxed);
        self.cache.flush_all(at);
    }

    /// Returns the power of two of buckets that memcached's hash table would have for this number of
    /// items. The table doubles when there are one and a half times as many items as buckets.
    pub fn index_power(&self, items: u64) -> u32 {
        let mut power = self.tuning().hashpower.max(self.index_power.load(Ordering::Relaxed));
        while power < 32 && items > (3u64 << power) / 2 {
            power += 1;
        }
        self.index_power.fetch_max(power, Ordering::Relaxed).max(power)
    }

    /// Sets the memory limit.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.memory.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.cache.set_memory_limit(bytes);
    }

    /// Returns the memory limit in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.memory.load(Ordering::Relaxed).unsigned_abs()
    }

    /// Returns a TLS stream for a new connection.
    pub fn encrypt(&self, how: TlsUse) -> Result<TlsStream, Error> {
        match &self.encryption {
            Some(encryption) => encryption.accept(how),
            None => Err(Error::Tls { reason: "the server was started without -Z".to_owned() }),
        }
    }

    /// Reloads certificates and keys.
    pub fn refresh_certificates(&self) -> Result<(), Error> {
        if let Some(encryption) = &self.encryption {
            encryption.refresh()?;
            self.tls_counts.refreshed.store(time::now(&self.env), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the TLS counters.
    pub fn tls_counts(&self) -> &TlsCounts {
        &self.tls_counts
    }

    /// Moves the clock forward, for tests.
    pub fn turn_clock(&self, by: Duration) {
        let turned = self.turned_ns.fetch_add(by.as_nanos() as i64, Ordering::Relaxed) + by.as_nanos() as i64;
        self.env.set_clock_skew(Duration::from_nanos(turned.unsigned_abs()), true);
    }

    /// Requests a stop of the server.
    pub fn stop(&self, graceful: bool) {
        self.graceful.store(graceful, Ordering::Relaxed);
        self.shutdown.trigger();
    }
}

/// The options of the flash tier, from the settings.
fn flash_options(settings: &Settings) -> Option<FlashOptions> {
    let part = |path: &super::settings::FlashPath| FilePart { path: path.path.clone(), bytes: path.bytes };
    // files for values that are kept come last
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
        refuse_foreign: true,
        ..FlashOptions::default()
    })
}

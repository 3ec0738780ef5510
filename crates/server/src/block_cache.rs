//! The cache of blocks according to the settings: memory, and flash in a directory.
//!
//! Invariant: whatever is wrong with the directory, the server starts and answers; data that cannot be
//! cached is read from the store.

use std::path::Path;

use sandur_base::units::{ByteSize, MIB};
use sandur_cache::device::FilePart;
use sandur_cache::flash::{FlashOptions, Journaling, Warm};
use sandur_cache::policy::TenantCaps;
use sandur_cache::{Cache, CacheOptions, LEAST_MEMORY};
use sandur_engine::tenant_number;
use sandur_memory::MemoryBudget;
use sandur_runtime::Env;

use sandur_config::{CacheSettings, TenantShares};

/// Name of the file in the directory.
const FILE: &str = "flash";
/// Minimum size of a flash tier; a smaller one is not worth its index.
const LEAST_FLASH: u64 = 64 * MIB;

/// The memory of the cache.
pub struct CacheMemory {
    /// Its budget.
    pub budget: MemoryBudget,
    /// Bytes from which the sizes of its buffers are derived.
    pub nominal: u64,
}

/// Opens the cache. `has_bucket` says that reads of the store use the network.
pub fn open(env: &Env, settings: &CacheSettings, memory: CacheMemory, has_bucket: bool) -> Cache {
    let wanted = match settings.flash.as_str() {
        _ if settings.dir.is_empty() => false,
        "on" => true,
        "off" => false,
        _ => has_bucket,
    };
    if !wanted {
        return in_memory(env, memory);
    }
    match open_flash(env, settings, &memory) {
        Ok(cache) => cache,
        Err(reason) => {
            let dir = &settings.dir;
            tracing::error!(
                dir,
                reason,
                "the cache directory cannot be used; blocks are cached in memory only"
            );
            in_memory(env, memory)
        }
    }
}

fn in_memory(env: &Env, CacheMemory { budget, nominal }: CacheMemory) -> Cache {
    let memory = nominal.max(LEAST_MEMORY);
    let options = CacheOptions { memory, budget: Some(budget), ..CacheOptions::default() };
    Cache::open(env, options).expect("without flash only a memory limit below LEAST_MEMORY fails")
}

fn open_flash(env: &Env, settings: &CacheSettings, memory: &CacheMemory) -> Result<Cache, String> {
    let directory = Path::new(&settings.dir);
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let bytes = match settings.size {
        0 => size_for(directory)?,
        size => size,
    };
    let part = FilePart { path: directory.join(FILE), bytes };
    let flash = FlashOptions {
        parts: vec![part],
        // Parts of blocks never change, so data that survived a crash is valid.
        warm: Warm::Crash,
        journaling: Journaling::Off,
        ..FlashOptions::default()
    };
    let options = CacheOptions {
        memory: memory.nominal,
        budget: Some(memory.budget.clone()),
        flash: Some(flash),
        flash_write_bytes_per_day: settings.write_per_day,
        tenant_caps: caps(&settings.tenant_share),
        ..CacheOptions::default()
    };
    let cache = Cache::open(env, options).map_err(|error| error.to_string())?;
    let (dir, size) = (&settings.dir, ByteSize(bytes).to_string());
    tracing::info!(dir, size, "caching parts of blocks on flash");
    Ok(cache)
}

fn caps(shares: &TenantShares) -> TenantCaps {
    let named = shares.named.iter().map(|(tenant, percent)| (tenant_number(tenant), percent / 100.0));
    TenantCaps { default: shares.default / 100.0, named: named.collect() }
}

/// The size of the existing file, or half of the free space.
fn size_for(directory: &Path) -> Result<u64, String> {
    if let Ok(present) = std::fs::metadata(directory.join(FILE))
        && present.len() >= LEAST_FLASH
    {
        return Ok(present.len());
    }
    let free = rustix::fs::statvfs(directory).map_err(|error| error.to_string())?;
    let bytes = free.f_bavail.saturating_mul(free.f_frsize) / 2;
    if bytes < LEAST_FLASH {
        let (bytes, least) = (ByteSize(bytes), ByteSize(LEAST_FLASH));
        return Err(format!(
            "half of the free space is {bytes}, but at least {least} are needed; set cache.size"
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use sandur_cache::{Hint, Lookup, Put, Read};
    use sandur_model::TenantId;

    use super::*;

    fn settings(dir: &Path, flash: &str) -> CacheSettings {
        let dir = dir.to_str().unwrap().to_owned();
        let tenant_share = TenantShares::default();
        CacheSettings { dir, size: LEAST_FLASH, flash: flash.to_owned(), write_per_day: 0, tenant_share }
    }

    fn memory(nominal: u64) -> CacheMemory {
        CacheMemory { budget: MemoryBudget::root("cache", nominal), nominal }
    }

    #[test]
    fn flash_is_used_for_buckets_or_if_enabled() {
        let directory = tempfile::TempDir::new().unwrap();
        let env = Env::system(1);
        let has_flash = |flash: &str, has_bucket| {
            let cache = open(&env, &settings(directory.path(), flash), memory(32 * MIB), has_bucket);
            cache.stats().flash.is_some()
        };
        assert!(!has_flash("auto", false) && !has_flash("off", true));
        assert!(has_flash("auto", true) && has_flash("on", false));
        let none = CacheSettings { dir: String::new(), ..settings(directory.path(), "on") };
        assert!(open(&env, &none, memory(32 * MIB), true).stats().flash.is_none());
    }

    #[test]
    fn with_an_unusable_directory_the_cache_is_in_memory() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("a file");
        std::fs::write(&file, "in the way").unwrap();
        let cache = open(&Env::system(1), &settings(&file.join("below"), "auto"), memory(32 * MIB), true);
        assert!(cache.stats().flash.is_none());
    }

    /// Goal: the option limits a tenant that stores more than its share, and `/metrics` shows it.
    #[test]
    fn a_tenant_that_stores_much_does_not_displace_the_others() {
        let directory = tempfile::TempDir::new().unwrap();
        let tenant_share = "team-a=30%".parse().unwrap();
        let settings = CacheSettings { tenant_share, ..settings(directory.path(), "on") };
        let cache = open(&Env::system(1), &settings, memory(8 * MIB), false);
        let mut registry = prometheus_client::registry::Registry::default();
        cache.register(&mut registry);
        let number = |name: &str| tenant_number(&TenantId::new(name).unwrap());
        let store = |name: &str, values: u64| {
            for value in 0..values {
                let put = Put { hint: Hint::Ingest, tenant: number(name), ..Put::default() };
                let bytes = vec![value as u8; 50_000].into();
                let _stored = cache.put(format!("{name} {value}").as_bytes(), bytes, &put);
                while cache.backpressure().is_some() {
                    std::thread::yield_now();
                }
            }
        };
        store("team-b", 400);
        store("team-a", 3_000);
        let read = Read { quiet: true, ..Read::default() };
        let is_there = |value: &u32| {
            matches!(cache.get(format!("team-b {value}").as_bytes(), &read), Lookup::Pending(_))
        };
        let left = (0..400).filter(is_there).count();
        assert!(left > 200, "{left} of 400 left");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let refused = text.lines().find(|line| line.contains("why=\"tenant_share\"")).unwrap();
        let (name, count) = refused.split_once(' ').unwrap();
        assert_eq!(name, "sandur_cache_flash_refused_total{why=\"tenant_share\"}");
        assert!(count.parse::<u64>().unwrap() > 1_000, "{refused}");
    }
}

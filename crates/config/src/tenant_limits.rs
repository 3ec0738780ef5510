//! The present limits of each tenant: those of the configuration, overridden by those of the file of
//! overrides, which is reloaded while the server runs.
//!
//! A file that is invalid or became empty changes nothing; the error is logged.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sandur_base::small_file;
use sandur_model::{Limits, TenantId};
use sandur_runtime::Env;

use super::error::Error;
use super::file;
use super::layers::FILE_BYTES_MAX;
use super::settings::Settings;

/// Interval at which the file of overrides is read.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// Limits by tenant.
pub struct TenantLimits {
    common: Arc<Limits>,
    configured: BTreeMap<String, Arc<Limits>>,
    overrides: RwLock<BTreeMap<String, Arc<Limits>>>,
    path: String,
}

impl TenantLimits {
    /// The limits of the settings; the file of overrides is not read yet.
    pub fn new(settings: &Settings) -> Self {
        let shared = |(name, limits): (&String, &Limits)| (name.clone(), Arc::new(limits.clone()));
        Self {
            common: Arc::new(settings.limits.clone()),
            configured: settings.tenants.iter().map(shared).collect(),
            overrides: RwLock::default(),
            path: settings.limits_file.clone(),
        }
    }

    /// The limits of a tenant; for several tenants the strictest of each limit.
    pub fn of(&self, tenant: &TenantId) -> Arc<Limits> {
        if !tenant.is_several() {
            return self.of_one(tenant.as_str());
        }
        let each = tenant.each().map(|one| self.of_one(one.as_str()));
        let strictest = |a: Arc<Limits>, b: Arc<Limits>| Arc::new(strictest(&a, &b));
        each.reduce(strictest).unwrap_or_else(|| Arc::clone(&self.common))
    }

    /// The limits of a single tenant.
    pub fn of_one(&self, tenant: &str) -> Arc<Limits> {
        let overrides = self.overrides.read().unwrap_or_else(PoisonError::into_inner);
        let own = overrides.get(tenant).or_else(|| self.configured.get(tenant));
        Arc::clone(own.unwrap_or(&self.common))
    }

    /// Applies the text of the file.
    fn apply(&self, text: &str) -> Result<(), Error> {
        let is_used = || !self.overrides.read().unwrap_or_else(PoisonError::into_inner).is_empty();
        if text.trim().is_empty() && is_used() {
            // The file is just being written, or was truncated; its former limits may be all that
            // prevents deletion of rows.
            return Err(Error::Emptied { path: self.path.clone() });
        }
        let base = |tenant: &str| Limits::clone(self.configured.get(tenant).unwrap_or(&self.common));
        let read = file::overrides(&self.path, text, base)?;
        let shared = read.into_iter().map(|(name, limits)| (name, Arc::new(limits))).collect();
        *self.overrides.write().unwrap_or_else(PoisonError::into_inner) = shared;
        Ok(())
    }

    /// Reads the file of overrides, if there is one.
    pub async fn load(&self, env: &Env) -> Result<(), Error> {
        match self.read(env).await? {
            Some(text) => self.apply(&text),
            None => Ok(()),
        }
    }

    async fn read(&self, env: &Env) -> Result<Option<String>, Error> {
        if self.path.is_empty() {
            return Ok(None);
        }
        let path = self.path.clone();
        let text = env.run_blocking(move || small_file::read_text(path, FILE_BYTES_MAX)).await;
        let path = || self.path.clone();
        text.map(Some).map_err(|error| Error::Unreadable { path: path(), reason: error.to_string() })
    }

    /// Reloads the file when it changes; never returns.
    pub async fn follow(self: Arc<Self>, env: Env) {
        let mut known = None;
        loop {
            env.sleep(RELOAD_EVERY).await;
            let read = self.read(&env).await;
            let outcome = match &read {
                Ok(None) => return,
                Ok(text) if *text == known => continue,
                Ok(Some(text)) => self.apply(text),
                Err(error) => Err(error.clone()),
            };
            match outcome {
                Ok(()) => tracing::info!(path = self.path, "limits of tenants reloaded"),
                Err(error) => {
                    tracing::error!(%error, "cannot reload limits of tenants; the old ones stay in use")
                }
            }
            known = read.ok().flatten();
        }
    }
}

/// The limits of a query over two tenants: the smaller of each, where 0 means none; the required labels
/// and the policies of both. Ranges are aligned only if both tenants align them.
fn strictest(a: &Limits, b: &Limits) -> Limits {
    fn least<T: Ord + Default + Copy>(a: T, b: T) -> T {
        let none = T::default();
        if a == none || b == none { a.max(b) } else { a.min(b) }
    }
    let mut both = a.clone();
    for (slot, other) in [
        (&mut both.max_query_length, b.max_query_length),
        (&mut both.max_query_range, b.max_query_range),
        (&mut both.max_query_lookback, b.max_query_lookback),
        (&mut both.query_timeout, b.query_timeout),
        (&mut both.split_queries_by_interval, b.split_queries_by_interval),
    ] {
        *slot = least(*slot, other);
    }
    for (slot, other) in [
        (&mut both.max_entries_limit_per_query, b.max_entries_limit_per_query),
        (&mut both.max_query_series, b.max_query_series),
        (&mut both.max_query_parallelism, b.max_query_parallelism),
        (&mut both.max_query_bytes_read, b.max_query_bytes_read),
        (&mut both.max_querier_bytes_read, b.max_querier_bytes_read),
        (&mut both.max_query_memory, b.max_query_memory),
        (&mut both.cardinality_limit, b.cardinality_limit),
        (&mut both.max_streams_matchers_per_query, b.max_streams_matchers_per_query),
        (&mut both.minimum_labels_number, b.minimum_labels_number),
        (&mut both.volume_max_series, b.volume_max_series),
    ] {
        *slot = least(*slot, other);
    }
    both.align_queries_with_step &= b.align_queries_with_step;
    let new = b.required_labels.iter().filter(|label| !a.required_labels.contains(label));
    both.required_labels.extend(new.cloned());
    both.blocked_queries.extend(b.blocked_queries.iter().cloned());
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(limits: &TenantLimits, tenant: &str) -> u64 {
        let ids = tenant.split('|').map(|id| TenantId::new(id).unwrap());
        limits.of(&TenantId::several(ids).unwrap()).max_query_series
    }

    #[test]
    fn overrides_override_the_configuration_and_invalid_files_change_nothing() {
        let mut settings = Settings { limits_file: "limits.toml".to_owned(), ..Settings::default() };
        let a = Limits { max_query_series: 1, max_query_range: 5, ..Limits::default() };
        settings.tenants.insert("a".to_owned(), a);
        let limits = TenantLimits::new(&settings);
        assert_eq!((series(&limits, "a"), series(&limits, "b")), (1, 500));
        limits.apply("[overrides.a]\nmax_query_series = 2\n[overrides.b]\nmax_query_series = 3").unwrap();
        assert_eq!((series(&limits, "a"), series(&limits, "b"), series(&limits, "c")), (2, 3, 500));
        let a = TenantId::new("a").unwrap();
        assert_eq!(limits.of(&a).max_query_range, 5, "other limits come from the configuration");
        limits.apply("[overrides.a]\nmax_query_serie = 2").unwrap_err();
        assert_eq!(series(&limits, "a"), 2);
        assert!(limits.apply(" \n").unwrap_err().to_string().contains("[overrides]"));
        assert_eq!(series(&limits, "a"), 2);
        limits.apply("[overrides]").unwrap();
        limits.apply("").unwrap();
        assert_eq!(series(&limits, "a"), 1);
        limits.apply("[overrides.b]\nmax_query_series = 0").unwrap();
        assert_eq!((series(&limits, "a"), series(&limits, "a|b"), series(&limits, "b|c")), (1, 1, 500));
    }

    #[test]
    fn a_query_over_several_tenants_is_aligned_if_all_of_them_want_it() {
        let limits = TenantLimits::new(&Settings::default());
        let file =
            "[overrides.a]\nalign_queries_with_step = true\n[overrides.b]\nalign_queries_with_step = true";
        limits.apply(file).unwrap();
        let is_aligned = |tenant: &str| {
            let ids = tenant.split('|').map(|id| TenantId::new(id).unwrap());
            limits.of(&TenantId::several(ids).unwrap()).align_queries_with_step
        };
        assert_eq!(["a", "c", "a|b", "a|c"].map(is_aligned), [true, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_again_while_the_server_runs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limits.toml");
        let settings = Settings { limits_file: path.to_string_lossy().into_owned(), ..Settings::default() };
        let (env, limits) = (Env::simulated(1, 0), Arc::new(TenantLimits::new(&settings)));
        assert!(matches!(limits.load(&env).await, Err(Error::Unreadable { .. })));
        std::fs::write(&path, "[overrides.a]\nmax_query_series = 7").unwrap();
        limits.load(&env).await.unwrap();
        assert_eq!(series(&limits, "a"), 7);
        let _task = env.spawn("limits", Arc::clone(&limits).follow(env.clone()));
        for (text, expected) in [("max_query_series = 8", 8), ("nonsense", 8), ("max_query_series = 9", 9)] {
            std::fs::write(&path, format!("[overrides.a]\n{text}")).unwrap();
            env.sleep(RELOAD_EVERY * 2).await;
            assert_eq!(series(&limits, "a"), expected, "{text}");
        }
        for (text, expected) in [("", 9), (" \n", 9), ("# none", 500)] {
            std::fs::write(&path, text).unwrap();
            env.sleep(RELOAD_EVERY * 2).await;
            assert_eq!(series(&limits, "a"), expected, "{text:?}");
        }
    }
}

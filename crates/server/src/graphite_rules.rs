//! Graphite's files of rules according to the options, which are read again periodically.
//!
//! **Invariant.** Invalid files change nothing: the previous rules stay in use, the log contains the
//! error, and a metric shows that there is one.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sandur_base::small_file;
use sandur_graphite::{RulesFile, StorageRules};
use sandur_runtime::Env;
use tokio::signal::unix::{Signal, SignalKind, signal};

use sandur_config::Graphite;

/// How often the files are read.
const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The current rules.
#[derive(Debug, Default)]
pub struct GraphiteRules {
    settings: Graphite,
    /// The texts read at the start.
    first: Option<Texts>,
    current: RwLock<Arc<StorageRules>>,
    broken: Gauge,
}

/// The texts of both files, if they are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    schemas: Option<String>,
    aggregation: Option<String>,
}

impl GraphiteRules {
    /// Reads the configured files.
    pub fn open(settings: &Graphite) -> Result<Self, String> {
        if settings.expire && settings.schemas.is_empty() {
            return Err("graphite.expire needs graphite.schemas: set it to a storage-schemas.conf".into());
        }
        if settings.rollups && settings.schemas.is_empty() {
            return Err("graphite.rollups needs graphite.schemas: set it to a storage-schemas.conf".into());
        }
        let mut rules = Self { settings: settings.clone(), ..Self::default() };
        let texts = rules.read()?;
        rules.apply(&texts)?;
        rules.first = Some(texts);
        Ok(rules)
    }

    /// The current rules.
    pub fn now(&self) -> Arc<StorageRules> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current rules, unless the files are now invalid.
    pub fn sound(&self) -> Option<Arc<StorageRules>> {
        (self.broken.get() == 0).then(|| self.now())
    }

    /// Registers the metric that shows whether the files are valid.
    pub fn register(&self, registry: &mut Registry) {
        let help = "1 while Graphite's files of rules are invalid and the previous rules stay in use";
        registry.register("sandur_graphite_rules_broken", help, self.broken.clone());
    }

    /// Reads the files again, every few seconds and on SIGHUP, forever.
    pub async fn follow(self: Arc<Self>, env: Env) {
        if self.settings.schemas.is_empty() && self.settings.aggregation.is_empty() {
            return;
        }
        let mut hangups = signal(SignalKind::hangup()).ok();
        let mut known = self.first.clone().map(Ok);
        loop {
            // Length and time of a changed file may be the same, so texts are compared. SIGHUP repeats
            // the log.
            let is_asked = env.timeout(RELOAD_EVERY, next(&mut hangups)).await.is_some();
            let rules = Arc::clone(&self);
            let read = env.run_blocking(move || rules.read()).await;
            if known.as_ref() == Some(&read) && !is_asked {
                continue;
            }
            let outcome = read.clone().and_then(|texts| self.apply(&texts));
            self.broken.set(i64::from(outcome.is_err()));
            match outcome {
                Ok(()) => tracing::info!("Graphite's rules reloaded"),
                Err(error) => {
                    tracing::error!(%error, "cannot reload Graphite's rules; the old ones stay in use")
                }
            }
            known = Some(read);
        }
    }

    fn apply(&self, texts: &Texts) -> Result<(), String> {
        let Graphite { schemas, aggregation, .. } = &self.settings;
        let schemas = texts.schemas.as_deref().map(|text| RulesFile { name: schemas, text });
        let aggregation = texts.aggregation.as_deref().map(|text| RulesFile { name: aggregation, text });
        let rules = StorageRules::read(schemas, aggregation).map_err(|error| error.to_string())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        Ok(())
    }

    fn read(&self) -> Result<Texts, String> {
        let Graphite { schemas, aggregation, .. } = &self.settings;
        Ok(Texts { schemas: text_of(schemas)?, aggregation: text_of(aggregation)? })
    }
}

/// The next SIGHUP; never, if signals cannot be handled.
async fn next(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => drop(hangups.recv().await),
        None => std::future::pending().await,
    }
}

fn text_of(path: &str) -> Result<Option<String>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = small_file::read_text(path, FILE_BYTES_MAX);
    text.map(Some).map_err(|error| format!("cannot read {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The step of a name after the files were read again.
    async fn step(rules: &GraphiteRules, env: &Env) -> i64 {
        env.sleep(RELOAD_EVERY * 2).await;
        rules.now().of("a.b").archives[0].step
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_apply_and_invalid_ones_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("storage-schemas.conf");
        let write = |step: &str| {
            std::fs::write(&path, format!("[all]\npattern = .*\nretentions = {step}:7d\n")).unwrap();
        };
        let settings = Graphite { schemas: path.display().to_string(), ..Graphite::default() };
        assert!(GraphiteRules::open(&settings).unwrap_err().contains("storage-schemas.conf"));
        let expiring = Graphite { expire: true, ..Graphite::default() };
        assert!(GraphiteRules::open(&expiring).unwrap_err().contains("graphite.schemas"));
        let rolling = Graphite { rollups: true, ..Graphite::default() };
        assert!(GraphiteRules::open(&rolling).unwrap_err().contains("graphite.schemas"));
        write("10s");
        let env = Env::simulated(1, 0);
        let rules = Arc::new(GraphiteRules::open(&settings).unwrap());
        let _task = env.spawn("rules", Arc::clone(&rules).follow(env.clone()));
        assert_eq!(step(&rules, &env).await, 10);
        write("20s");
        assert_eq!((step(&rules, &env).await, rules.broken.get()), (20, 0));
        assert!(rules.sound().is_some());
        write("nonsense");
        assert_eq!((step(&rules, &env).await, rules.broken.get()), (20, 1));
        assert!(rules.sound().is_none());
        std::fs::remove_file(&path).unwrap();
        assert_eq!((step(&rules, &env).await, rules.broken.get()), (20, 1));
        write("30s");
        assert_eq!((step(&rules, &env).await, rules.broken.get()), (30, 0));
    }
}

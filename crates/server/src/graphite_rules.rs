//! Graphite's files of rules, as the options name them, which are read again and again while the server runs.
//!
//! **Invariant.** Files that cannot be used change nothing: the rules before them hold, the log says what is
//! wrong, and a metric that something is.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sandur_base::{Env, small_file};
use sandur_graphite::{RulesFile, StorageRules};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Graphite;

/// How often the files are read.
const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The rules now.
#[derive(Debug, Default)]
pub struct GraphiteRules {
    settings: Graphite,
    /// What was read at the start.
    first: Option<Texts>,
    current: RwLock<Arc<StorageRules>>,
    broken: Gauge,
}

/// Texts of both files, where they are named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    schemas: Option<String>,
    aggregation: Option<String>,
}

impl GraphiteRules {
    /// Reads the files that are named.
    pub fn open(settings: &Graphite) -> Result<Self, String> {
        if settings.expire && settings.schemas.is_empty() {
            return Err(
                "graphite.expire deletes by graphite.schemas: set it to a storage-schemas.conf".into()
            );
        }
        if settings.rollups && settings.schemas.is_empty() {
            return Err("graphite.rollups goes by graphite.schemas: set it to a storage-schemas.conf".into());
        }
        let mut rules = Self { settings: settings.clone(), ..Self::default() };
        let texts = rules.read()?;
        rules.apply(&texts)?;
        rules.first = Some(texts);
        Ok(rules)
    }

    /// The rules of this moment.
    pub fn now(&self) -> Arc<StorageRules> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rules of this moment, unless what the files say now is not known.
    pub fn sound(&self) -> Option<Arc<StorageRules>> {
        (self.broken.get() == 0).then(|| self.now())
    }

    /// Shows whether the files can be used.
    pub fn register(&self, registry: &mut Registry) {
        let help = "1 while Graphite's files of rules cannot be used, and the rules before them hold";
        registry.register("sandur_graphite_rules_broken", help, self.broken.clone());
    }

    /// Reads the files again, every few seconds and when the process gets SIGHUP, for ever.
    pub async fn follow(self: Arc<Self>, env: Env) {
        if self.settings.schemas.is_empty() && self.settings.aggregation.is_empty() {
            return;
        }
        let mut hangups = signal(SignalKind::hangup()).ok();
        let mut known = self.first.clone().map(Ok);
        loop {
            // Files may keep their length and their time: their texts are compared. SIGHUP repeats the log.
            let is_asked = env.timeout(RELOAD_EVERY, next(&mut hangups)).await.is_some();
            let rules = Arc::clone(&self);
            let read = env.run_blocking(move || rules.read()).await;
            if known.as_ref() == Some(&read) && !is_asked {
                continue;
            }
            let outcome = read.clone().and_then(|texts| self.apply(&texts));
            self.broken.set(i64::from(outcome.is_err()));
            match outcome {
                Ok(()) => tracing::info!("Graphite's files of rules are read"),
                Err(error) => tracing::error!(%error, "Graphite's rules stay as they were"),
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

/// The next SIGHUP; none where it cannot be watched.
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

    /// The step of a name, once the files were read again.
    async fn step(rules: &GraphiteRules, env: &Env) -> i64 {
        env.sleep(RELOAD_EVERY * 2).await;
        rules.now().of("a.b").archives[0].step
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_hold_and_broken_ones_change_nothing() {
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

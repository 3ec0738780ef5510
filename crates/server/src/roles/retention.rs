//! Determines how long rows are kept, by limits of tenants and optionally by Graphite's rules, and which
//! points become rollups.
//!
//! Selectors have precedence over Graphite's rules, and these over the tenant's period.

use std::sync::{Arc, Mutex, PoisonError};

use sandur_config::{Graphite, TenantLimits};
use sandur_engine::{LabelRetention, Retention, RetentionOf, RollupStep, RollupSteps, RollupsNow};
use sandur_graphite::StorageRules;
use sandur_model::{
    GRAPHITE_MARK, GRAPHITE_TAGGED, Labels, MatchOp, Matcher, SECOND_NS, Signal, graphite_level,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::graphite_rules::GraphiteRules;

/// How long rows are kept, and which points become rollups.
pub type Kept = (RetentionOf, Option<RollupsNow>);

/// The functions that the options configure.
pub fn kept(limits: &Arc<TenantLimits>, options: &Graphite, rules: &Arc<GraphiteRules>) -> Kept {
    let retention = retention_of(Arc::clone(limits), options.expire.then_some(rules));
    (retention, options.rollups.then(|| rollups_of(rules)))
}

/// The present retention; `rules` are Graphite's if they determine how long series are stored.
fn retention_of(limits: Arc<TenantLimits>, rules: Option<&Arc<GraphiteRules>>) -> RetentionOf {
    let archives = rules.map(|rules| Archives { rules: Arc::clone(rules), known: Mutex::default() });
    Arc::new(move |dataset| {
        let limits = limits.of(&dataset.tenant);
        let period_ns = limits.retention_period;
        match dataset.signal {
            Signal::Logs => Retention { period_ns, rules: limits.retention_stream.clone(), of_labels: None },
            Signal::Metrics => Retention {
                period_ns,
                rules: limits.metrics.retention_series.clone(),
                of_labels: archives.as_ref().map(|archives| archives.now() as _),
            },
        }
    })
}

/// The present rules of rollups, if the rules are valid.
fn rollups_of(rules: &Arc<GraphiteRules>) -> RollupsNow {
    let archives = Archives { rules: Arc::clone(rules), known: Mutex::default() };
    Arc::new(move || {
        archives.rules.sound()?;
        Some(archives.now() as Arc<dyn RollupSteps>)
    })
}

/// Graphite's rules, with cached results for all tenants.
struct Archives {
    rules: Arc<GraphiteRules>,
    known: Mutex<Option<Arc<ByArchives>>>,
}

impl Archives {
    fn now(&self) -> Arc<ByArchives> {
        let rules = self.rules.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref().filter(|known| Arc::ptr_eq(&known.rules, &rules)) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(known.insert(Arc::new(ByArchives::new(rules)))),
        }
    }
}

/// Keeps Graphite series as long as the longest archive of their section.
struct ByArchives {
    rules: Arc<StorageRules>,
    version: u64,
    periods_ns: Vec<i64>,
    rolled: Rolled,
}

/// The same for rollups.
struct Rolled {
    version: u64,
    ages_ns: Vec<i64>,
}

impl ByArchives {
    fn new(rules: Arc<StorageRules>) -> Self {
        let mut text = String::new();
        rules.each_kept().for_each(|(pattern, seconds)| text.push_str(&format!("{pattern:?} {seconds}\n")));
        let periods_ns = each_once(rules.each_kept().map(|(_, seconds)| nanoseconds(seconds)));
        let mut rolled = String::new();
        rules.each_rolled().for_each(|(pattern, all)| rolled.push_str(&format!("{pattern:?} {all:?}\n")));
        let all_but_last = rules.each_rolled().filter_map(|(_, archives)| archives.split_last());
        let ages = all_but_last.flat_map(|(_, finer)| finer.iter().map(|archive| archive.retention));
        let ages_ns = each_once(ages.map(nanoseconds));
        let (version, with_rolled) = (xxh3_64(text.as_bytes()), xxh3_64((text + &rolled).as_bytes()));
        Self { rules, version, periods_ns, rolled: Rolled { version: with_rolled, ages_ns } }
    }
}

/// Sorts numbers and removes duplicates.
fn each_once(numbers: impl Iterator<Item = i64>) -> Vec<i64> {
    numbers.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn nanoseconds(seconds: i64) -> i64 {
    seconds.saturating_mul(SECOND_NS)
}

impl LabelRetention for ByArchives {
    fn version(&self) -> u64 {
        self.version
    }

    fn periods_ns(&self) -> &[i64] {
        &self.periods_ns
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        of_graphite()
    }

    fn period_ns(&self, labels: &Labels) -> Option<i64> {
        self.rules.kept(labels).map(nanoseconds)
    }
}

/// Matchers for series of paths and for tagged series.
fn of_graphite() -> Vec<Vec<Matcher>> {
    let of_paths = graphite_level(0).map(|label| Matcher::new(label, MatchOp::NotEqual, ""));
    let tagged = Matcher::new(GRAPHITE_MARK, MatchOp::Equal, GRAPHITE_TAGGED);
    of_paths.into_iter().chain([tagged]).flatten().map(|matcher| vec![matcher]).collect()
}

impl RollupSteps for ByArchives {
    fn version(&self) -> u64 {
        self.rolled.version
    }

    fn ages_ns(&self) -> &[i64] {
        &self.rolled.ages_ns
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        of_graphite()
    }

    fn steps(&self, labels: &Labels, age_ns: i64) -> Option<RollupStep> {
        // Rounds up to seconds: a fraction of a second counts as older.
        let age = age_ns.saturating_add(SECOND_NS - 1).div_euclid(SECOND_NS);
        let (finest, step) = self.rules.rolled(labels, age)?;
        Some(RollupStep { finest, step })
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::{Dataset, TenantId, graphite_path_labels};

    use super::*;
    use sandur_config::Settings;

    #[test]
    fn limits_and_archives_determine_retention() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("storage-schemas.conf");
        std::fs::write(&path, "[a]\npattern = ^a\\.\nretentions = 10s:1d,1m:7d\n").unwrap();
        let settings = Graphite { schemas: path.display().to_string(), ..Graphite::default() };
        let rules = Arc::new(GraphiteRules::open(&settings).unwrap());
        let mut settings = Settings::default();
        settings.limits.retention_period = 5;
        let limits = Arc::new(TenantLimits::new(&settings));
        let tenant = TenantId::default_tenant();
        let (logs, metrics) = (Dataset::logs(tenant.clone()), Dataset::metrics(tenant));
        let of = retention_of(Arc::clone(&limits), Some(&rules));
        assert!(of(&logs).of_labels.is_none());
        assert_eq!((of(&logs).period_ns, of(&metrics).period_ns), (5, 5));
        let by_archives = of(&metrics).of_labels.unwrap();
        let period = |path| by_archives.period_ns(&graphite_path_labels(path).unwrap());
        assert_eq!((period("a.b"), period("b.a")), (Some(7 * 86_400 * SECOND_NS), None));
        assert_eq!((by_archives.periods_ns().len(), by_archives.any_of().len()), (1, 2));
        let rollups = rollups_of(&rules)().unwrap();
        assert_eq!((rollups.ages_ns(), rollups.any_of().len()), (&[86_400 * SECOND_NS][..], 2));
        let steps = |age_ns| rollups.steps(&graphite_path_labels("a.b").unwrap(), age_ns);
        assert_eq!(steps(86_400 * SECOND_NS), None);
        assert_eq!(steps(86_400 * SECOND_NS + 1), Some(RollupStep { finest: 10, step: 60 }));
        assert!(retention_of(limits, None)(&metrics).of_labels.is_none());
    }
}

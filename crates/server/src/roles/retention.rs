//! How long rows are kept, by the limits of tenants and, if the options say so, by Graphite's rules.
//!
//! Selectors go before Graphite's rules, those before the tenant's period.

use std::sync::{Arc, Mutex, PoisonError};

use sandur_engine::{LabelRetention, Retention, RetentionOf};
use sandur_model::{
    GRAPHITE_MARK, GRAPHITE_TAGGED, Labels, MatchOp, Matcher, SECOND_NS, Signal, graphite_level,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::TenantLimits;
use crate::graphite_rules::GraphiteRules;
use crate::wiring::graphite::StorageRules;

/// What holds at each moment; `rules` are Graphite's if they tell how long series are stored.
pub fn retention_of(limits: Arc<TenantLimits>, rules: Option<&Arc<GraphiteRules>>) -> RetentionOf {
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

/// Graphite's rules, and what was made of those of the last look: all tenants have the same.
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

/// Series of Graphite's are kept as long as the longest archive of their section.
struct ByArchives {
    rules: Arc<StorageRules>,
    version: u64,
    periods_ns: Vec<i64>,
}

impl ByArchives {
    fn new(rules: Arc<StorageRules>) -> Self {
        let mut text = String::new();
        rules.each_kept().for_each(|(pattern, seconds)| text.push_str(&format!("{pattern:?} {seconds}\n")));
        let mut periods_ns: Vec<i64> = rules.each_kept().map(|(_, seconds)| nanoseconds(seconds)).collect();
        periods_ns.sort_unstable();
        periods_ns.dedup();
        Self { rules, version: xxh3_64(text.as_bytes()), periods_ns }
    }
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
        let paths = graphite_level(0).map(|label| Matcher::new(label, MatchOp::NotEqual, ""));
        let tagged = Matcher::new(GRAPHITE_MARK, MatchOp::Equal, GRAPHITE_TAGGED);
        paths.into_iter().chain([tagged]).flatten().map(|matcher| vec![matcher]).collect()
    }

    fn period_ns(&self, labels: &Labels) -> Option<i64> {
        self.rules.kept(labels).map(nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::{Dataset, TenantId, graphite_path_labels};

    use super::*;
    use crate::config::{Graphite, Settings};

    #[test]
    fn limits_and_archives_tell_how_long_rows_are_kept() {
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
        assert!(retention_of(limits, None)(&metrics).of_labels.is_none());
    }
}

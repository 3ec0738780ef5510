//! Decodes a resource: `job` and `instance` from its service names, the labels that it gives to its
//! series, and `target_info` with its other attributes.

use sandur_model::{MetricKind, MetricMetadata};
use sandur_protobuf::Reader;

use super::attributes::join;
use super::export::{Export, LabelMap, Resource};
use super::names;
use crate::error::Error;
use crate::samples::labels_check::METRIC_NAME;

const SERVICE_NAME: &str = "service.name";
const SERVICE_NAMESPACE: &str = "service.namespace";
const SERVICE_INSTANCE: &str = "service.instance.id";
const IDENTIFYING: [&str; 3] = [SERVICE_NAMESPACE, SERVICE_NAME, SERVICE_INSTANCE];
const TARGET_INFO: &str = "target_info";

/// Interval of the samples of `target_info`: half of the look-back time of queries.
const TARGET_INFO_EVERY_MS: i64 = 150_000;
/// Most samples of `target_info` of one resource in a request; points over one hour need 25.
const TARGET_INFO_MAX: i64 = 1_000;

impl<'a> Export<'a> {
    pub(super) fn read_resource(&mut self, resource: Reader<'a>) -> Result<(), Error> {
        let attributes = self.read_attributes(resource, 1)?.pairs;
        let limits = &self.builder.limits().metrics;
        let get = |key: &str| {
            let found = attributes.iter().find(|(known, _)| known == key);
            found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
        };
        let mut identity = Vec::new();
        if let Some(name) = get(SERVICE_NAME) {
            let job = match get(SERVICE_NAMESPACE) {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            };
            identity.push(("job".to_owned(), job));
        }
        if let Some(instance) = get(SERVICE_INSTANCE) {
            identity.push(("instance".to_owned(), instance.to_owned()));
        }
        let listed = |list: &[String], key: &str| list.iter().any(|listed| listed == key);
        let mut promoted = LabelMap::new();
        for (key, value) in &attributes {
            let promote = match limits.promote_all_otel_resource_attributes {
                true => !listed(&limits.ignore_otel_resource_attributes, key),
                false => listed(&limits.promote_otel_resource_attributes, key),
            };
            let label = names::label_name(key, limits.otlp_translation_strategy);
            if let Some(label) = label.filter(|_| promote) {
                join(&mut promoted, label, value);
            }
        }
        self.resource = Resource { attributes, identity, promoted };
        Ok(())
    }

    /// Adds samples of `target_info` over the time range of the resource's points.
    pub(super) fn target_info(&mut self) -> Result<(), Error> {
        let Some((first, last)) = self.times else { return Ok(()) };
        let limits = &self.builder.limits().metrics;
        let is_identifying = |key: &str| IDENTIFYING.contains(&key);
        let others = self.resource.attributes.iter().filter(|(key, _)| !is_identifying(key)).count();
        if others == 0 || self.resource.identity.is_empty() {
            return Ok(());
        }
        let mut labels = LabelMap::new();
        for (key, value) in &self.resource.attributes {
            let leave_out = is_identifying(key) && !limits.otel_keep_identifying_resource_attributes;
            let label = names::label_name(key, limits.otlp_translation_strategy);
            if let Some(label) = label.filter(|label| !leave_out && label != METRIC_NAME) {
                join(&mut labels, label, value);
            }
        }
        labels.extend(self.resource.identity.iter().cloned());
        labels.insert(METRIC_NAME.to_owned(), TARGET_INFO.to_owned());
        self.builder.metadata(MetricMetadata {
            family: TARGET_INFO.into(),
            kind: MetricKind::Gauge,
            unit: "".into(),
            help: "Target metadata".into(),
        })?;
        if self.begin(&labels)? {
            let first = first.max(last.saturating_sub(TARGET_INFO_MAX * TARGET_INFO_EVERY_MS));
            let mut time_ms = first;
            while time_ms < last {
                self.builder.sample(time_ms, 1f64.to_bits(), None)?;
                time_ms += TARGET_INFO_EVERY_MS;
            }
            self.builder.sample(last, 1f64.to_bits(), None)?;
            self.builder.end();
        }
        Ok(())
    }

    /// Begins the series of these labels; false when it is refused.
    pub(super) fn begin(&mut self, labels: &LabelMap) -> Result<bool, Error> {
        let pairs = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        match self.builder.series_of_pairs(pairs)? {
            Ok(known) => {
                self.builder.begin(known, None)?;
                Ok(true)
            }
            Err(refusal) => {
                self.builder.refuse_series(refusal, 1);
                Ok(false)
            }
        }
    }
}

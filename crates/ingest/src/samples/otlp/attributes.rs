//! Converts attributes to labels.
//!
//! Attributes are sorted by key. If several keys become the same label, their values are joined by `;`.

use sandur_protobuf::{Reader, Wire};

use super::export::{Export, Label, LabelMap};
use super::names;
use crate::error::Error;
use crate::otlp_value::{ValueWriter, key_value};
use crate::samples::builder::{LABELS_MAX, too_many_labels};
use crate::samples::labels_check::METRIC_NAME;

/// Attributes of a message, sorted by key; of equal keys the last one counts.
pub(super) struct Attributes {
    pub(super) pairs: Vec<Label>,
}

impl<'a> Export<'a> {
    /// Reads the attributes in a field of a message.
    pub(super) fn read_attributes(
        &mut self,
        mut message: Reader<'a>,
        field: u32,
    ) -> Result<Attributes, Error> {
        let mut pairs = Vec::new();
        while let Some(key) = message.key()? {
            if key != (field, Wire::Bytes) {
                message.skip(key.1)?;
                continue;
            }
            if pairs.len() >= LABELS_MAX {
                return Err(too_many_labels());
            }
            let (name, value) = key_value(message.message()?)?;
            let name = String::from_utf8_lossy(name.of(self.base)).into_owned();
            let most = value.text_bytes_max().min(self.limit);
            self.builder.memory().take(most)?;
            let mut writer = ValueWriter { base: self.base, into: Vec::new(), limit: self.limit };
            let written = writer.plain(value);
            self.builder.memory().give(most);
            written?;
            pairs.push((name, String::from_utf8_lossy(&writer.into).into_owned()));
        }
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = std::mem::take(&mut later.1);
            }
            same
        });
        Ok(Attributes { pairs })
    }

    /// Returns the labels of a point of the metric `name`: its attributes and the labels of the resource
    /// and the scope.
    pub(super) fn labels(&self, name: &str, attributes: &Attributes) -> LabelMap {
        let strategy = self.builder.limits().metrics.otlp_translation_strategy;
        let mut labels = LabelMap::new();
        for (key, value) in attributes.pairs.iter().filter(|(key, _)| key != METRIC_NAME) {
            if let Some(label) = names::label_name(key, strategy) {
                join(&mut labels, label, value);
            }
        }
        for (label, value) in &self.resource.promoted {
            labels.entry(label.clone()).or_insert_with(|| value.clone());
        }
        for (label, value) in self.resource.identity.iter().chain(&self.scope) {
            labels.insert(label.clone(), value.clone());
        }
        labels.insert(METRIC_NAME.to_owned(), name.to_owned());
        labels
    }
}

/// Adds a label, or appends the value to an existing one after `;`.
pub(super) fn join(labels: &mut LabelMap, label: String, value: &str) {
    let joined = labels.entry(label).or_default();
    if !joined.is_empty() {
        joined.push(';');
    }
    joined.push_str(value);
}

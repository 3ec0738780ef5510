//! The values that templates of alerts see.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_logql::template::{Record, Text, Value};
use sandur_model::Labels;

use crate::external::External;

/// The data of one alert.
pub struct AlertData {
    dot: Value,
}

impl AlertData {
    /// The data of a series with its value.
    pub fn new(labels: &Labels, value: f64, external: &External) -> Self {
        let fields = vec![
            ("Labels", texts(labels.iter())),
            ("ExternalLabels", texts(external.labels.iter().map(|(name, value)| (&**name, &**value)))),
            ("ExternalURL", text(&external.url)),
            ("Value", Value::Float(value)),
        ];
        let type_name = "struct { Labels map[string]string; ExternalLabels map[string]string; \
                         ExternalURL string; Value interface {} }";
        Self { dot: Value::Record(Arc::new(Record { type_name, fields })) }
    }

    /// The value of `.`.
    pub fn dot(&self) -> Value {
        self.dot.clone()
    }
}

/// A sample of a query.
pub fn sample(labels: &Labels, value: f64) -> Value {
    let fields = vec![("Labels", texts(labels.iter())), ("Value", Value::Float(value))];
    Value::Record(Arc::new(Record { type_name: "*template.sample", fields }))
}

/// Labels as Go's map of texts.
fn texts<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let pairs = pairs.map(|(name, value)| (constant(name), constant(value)));
    Value::Texts(Arc::new(pairs.collect::<BTreeMap<Text, Text>>()))
}

fn constant(text: &str) -> Text {
    Text::constant(text.to_owned())
}

/// A text as a value.
pub fn text(text: &str) -> Value {
    Value::Text(constant(text))
}

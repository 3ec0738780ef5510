//! Decodes OTLP metrics, in protobuf and JSON, and maps them to series as Prometheus does.
//!
//! `ExportMetricsServiceRequest{resource_metrics=1:{resource=1:{attributes=1}, scope_metrics=2:{scope=1,
//! metrics=2, schema_url=3}}}`. A resource's service names become `job` and `instance`, its other
//! attributes become labels of `target_info` ([`resource`]). Names are translated by the tenant's
//! strategy ([`names`]). Each kind of metric has its own file.

mod attributes;
mod exemplars;
mod exponential;
mod export;
mod histogram;
mod json;
mod metric;
mod names;
mod numbers;
mod resource;
mod summary;

use std::rc::Rc;

use bytes::Bytes;
use sandur_protobuf::{Reader, Wire};

use super::builder::{SampleBuilder, SamplePush};
use super::decoded::DecodedSamples;
use crate::error::Error;
use crate::memory::{DecoderMemory, Memory};
use crate::request::{Format, open_otlp, plain_limit};
use export::{Export, Resource};

/// Decodes a request to `/otlp/v1/metrics`; reserves memory before it is used.
pub fn otlp_metrics(
    push: SamplePush<'_>,
    body: Bytes,
    memory: Rc<dyn Memory>,
) -> Result<DecodedSamples, Error> {
    let memory = DecoderMemory::new(memory);
    let limits = push.push.limits;
    let body = match open_otlp(push.push.headers, limits, body, &memory)? {
        (Format::Protobuf, body) => body,
        (Format::Json, body) => body.translated(json::translate, &memory)?,
    };
    let mut export = Export {
        builder: SampleBuilder::new(push, 0, &memory),
        base: body.bytes(),
        limit: plain_limit(limits),
        resource: Resource::default(),
        scope: Vec::new(),
        times: None,
    };
    export.request()?;
    Ok(export.builder.finish())
}

impl<'a> Export<'a> {
    fn request(&mut self) -> Result<(), Error> {
        let mut request = Reader::new(self.base);
        while let Some(key) = request.key()? {
            match key {
                (1, Wire::Bytes) => self.resource_metrics(request.message()?)?,
                (_, wire) => request.skip(wire)?,
            }
        }
        Ok(())
    }

    fn resource_metrics(&mut self, mut message: Reader<'a>) -> Result<(), Error> {
        let resource = message.find(1)?.map_or(Reader::new(b""), |span| message.nested(span));
        self.read_resource(resource)?;
        self.times = None;
        while let Some(key) = message.key()? {
            match key {
                (2, Wire::Bytes) => self.scope_metrics(message.message()?)?,
                (_, wire) => message.skip(wire)?,
            }
        }
        self.target_info()
    }

    fn scope_metrics(&mut self, mut message: Reader<'a>) -> Result<(), Error> {
        self.scope.clear();
        if self.builder.limits().metrics.promote_otel_scope_metadata {
            self.read_scope(message)?;
        }
        while let Some(key) = message.key()? {
            match key {
                (2, Wire::Bytes) => self.metric(message.message()?)?,
                (_, wire) => message.skip(wire)?,
            }
        }
        Ok(())
    }

    /// Reads `Scope{name=1, version=2, attributes=3}` and the schema URL next to it.
    fn read_scope(&mut self, message: Reader<'a>) -> Result<(), Error> {
        let scope = message.find(1)?.map_or(Reader::new(b""), |span| message.nested(span));
        let attributes = self.read_attributes(scope, 3)?;
        let strategy = self.builder.limits().metrics.otlp_translation_strategy;
        for (key, value) in attributes.pairs {
            if let Some(name) = names::label_name(&format!("otel_scope_{key}"), strategy) {
                self.scope.push((name, value));
            }
        }
        let text = |reader: Reader<'a>, field| -> Result<String, Error> {
            let found = reader.find(field)?.map_or(&b""[..], |span| reader.bytes_of(span));
            Ok(String::from_utf8_lossy(found).into_owned())
        };
        self.scope.push(("otel_scope_name".to_owned(), text(scope, 1)?));
        self.scope.push(("otel_scope_version".to_owned(), text(scope, 2)?));
        self.scope.push(("otel_scope_schema_url".to_owned(), text(message, 3)?));
        Ok(())
    }
}

/// Converts nanoseconds to milliseconds.
fn milliseconds(nanoseconds: u64) -> i64 {
    (nanoseconds / 1_000_000) as i64
}

//! The decoder of OTLP logs: protobuf and JSON.

use bytes::Bytes;
use sandur_ingest::{PushHeaders, otlp_logs};
use sandur_model::TenantId;

use super::push::{NOW_NS, check, limits};

/// The first byte chooses protobuf or JSON; the rest is the body.
pub fn run(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let content_type = if choice % 2 == 0 { "application/x-protobuf" } else { "application/json" };
    let headers = PushHeaders { content_type: Some(content_type), content_encoding: None };
    let body = Bytes::copy_from_slice(body);
    if let Ok(decoded) = otlp_logs(&TenantId::default_tenant(), &limits(), NOW_NS, headers, body) {
        check(&decoded);
    }
}

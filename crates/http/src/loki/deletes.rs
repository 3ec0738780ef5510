//! What the endpoints of `delete` share: access, parsing, and formatting of requests.

use std::sync::Arc;

use axum::http::StatusCode;
use sandur_format::catalog_entry::DELETE_QUERY_BYTES_MAX;
use sandur_model::{DeletionMode, Rfc3339, Signal, TenantId};
use sandur_service::{DeleteShown, Deletes, Writes};

use crate::failed_request::Failure;

/// Loki's error for tenants that may not delete.
const NOT_AVAILABLE: &str = "deletion is not available for this tenant\n";

/// The delete requests of a signal, if the tenant may use them.
pub fn of(writes: &Writes, tenant: &TenantId, signal: Signal) -> Result<Arc<dyn Deletes>, Failure> {
    let allowed = writes.limits(tenant).deletion_mode != DeletionMode::Disabled;
    let deletes = writes.intake().deletes(signal).filter(|_| allowed);
    deletes.ok_or_else(|| Failure::invalid(NOT_AVAILABLE).with_status(StatusCode::FORBIDDEN))
}

/// Fails when the query of a delete request is longer than it may be.
pub fn check_length(text: &str) -> Result<(), Failure> {
    if text.len() > DELETE_QUERY_BYTES_MAX {
        let text = format!("the query is longer than {DELETE_QUERY_BYTES_MAX} bytes; split it\n");
        return Err(Failure::invalid(text));
    }
    Ok(())
}

/// Parses a timestamp into milliseconds: unix seconds of ten characters, or RFC 3339. Without text it is
/// the current time.
pub fn instant_ms(text: Option<&str>, now_ns: i64) -> Option<i64> {
    let Some(text) = text else { return Some(now_ns / 1_000_000) };
    if let Some(at) = Rfc3339::parse(text) {
        return Some(at.milliseconds());
    }
    let seconds: f64 = text.parse().ok().filter(|_| text.len() == 10)?;
    let ms = (seconds * 1_000.0).round();
    ms.is_finite().then_some(ms as i64)
}

/// The status in Loki's format.
pub fn status(shown: &DeleteShown) -> String {
    match shown.percent {
        0 => "received".to_owned(),
        100 => "processed".to_owned(),
        percent => format!("{percent}% Complete"),
    }
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;

    #[test]
    fn instants_are_read_as_loki_reads_them() {
        for (text, expected) in [
            (None, Some(1_500)),
            (Some("1591616227"), Some(1_591_616_227_000)),
            (Some("159161622.5"), None),
            (Some("15916162.5"), Some(15_916_162_500)),
            (Some("2020-06-08T11:37:07Z"), Some(1_591_616_227_000)),
            (Some("2020-06-08T11:37:07.1239Z"), Some(1_591_616_227_123)),
            (Some("9999-12-31T23:59:59Z"), Some(253_402_300_799_000)),
            (Some("1591616227000"), None),
            (Some("yesterday!"), None),
            (Some("-1e9999999"), None),
            (Some("1e00000308"), None),
        ] {
            assert_eq!(instant_ms(text, 1_500_000_000), expected, "{text:?}");
        }
    }

    #[test]
    fn a_status_is_one_of_lokis() {
        let shown = |percent| DeleteShown {
            id: Id(1),
            start_ms: 0,
            end_ms: 1,
            created_ms: 2,
            query: "{}".into(),
            percent,
        };
        let all = [0, 1, 99, 100].map(|percent| status(&shown(percent)));
        assert_eq!(all, ["received", "1% Complete", "99% Complete", "processed"]);
    }
}

//! Paths and formats of Loki before version 1, which old agents and scripts still use. One file per
//! endpoint. `series` is the same as in version 1 and is implemented there.

pub mod label_names;
pub mod label_values;
pub mod push;
pub mod query;
pub mod tail;

use axum::response::Response;

use super::loki::label_names::Found;
use super::marshal::json;
use super::reply;

/// Formats `{"values":[..]}`; like Loki, an empty list is left out.
fn values(found: &Found) -> Response {
    let mut body = b"{".to_vec();
    if !found.items.is_empty() || !found.warnings.is_empty() {
        body.extend_from_slice(b"\"values\":");
        json::strings(&mut body, found.items.iter().map(String::as_str));
        json::warnings(&mut body, &found.warnings);
    }
    body.extend_from_slice(b"}\n");
    reply::json(body)
}

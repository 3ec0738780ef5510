//! `config`: the configuration in effect.

use std::fmt::Write;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::config::Named;
use crate::http::app::App;
use crate::http::reply;
use crate::http::route::{GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/config"],
    group: Group::Operations,
    does: "The configuration in effect, without secrets.",
    parameters: &[],
    answers: "200, as it would stand in the file.",
    fails: "",
    handler: |verbs| on(verbs, config),
};

/// The configuration in effect, as it would stand in the file. It holds no secrets: those come from
/// the environment of the store's provider only.
async fn config(State(app): State<App>) -> Response {
    let mut settings = app.settings.clone();
    let mut page = String::new();
    let mut group = String::new();
    for named in Named::every() {
        let (of, key) = named.key.split_once('.').unwrap_or(("", &named.key));
        if of != group {
            // Writing to a String cannot fail.
            let _ = writeln!(page, "\n[{of}]");
            of.clone_into(&mut group);
        }
        let value =
            if key == "store" { without_secrets(&settings.store) } else { named.slot(&mut settings).print() };
        let _ = writeln!(page, "{key} = {value:?}");
    }
    reply::text(page)
}

/// The part of a store URL that may be shown: user information is left out.
pub fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_is_not_shown() {
        assert_eq!(without_secrets("s3://key:secret@bucket/p?region=x"), "s3://bucket/p?region=x");
        assert_eq!(without_secrets("file://./a@b"), "file://./a@b");
        assert_eq!(without_secrets("./sandur-data"), "./sandur-data");
    }
}

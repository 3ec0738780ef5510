//! `config`: the configuration in effect.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_config::{Named, Settings};
use sandur_rules::host_of;

use super::yaml;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/config"],
    scope: Access::Admin,
    does: "The configuration in effect, without secrets.",
    parameters: &[parameter(
        "mode",
        "`diff`: only values that differ from the defaults; `defaults`: the \
        defaults",
    )],
    answers: "200, YAML with the keys of the file.",
    handler: |request, app| config.call(request, app),
    ..Route::of(Group::Operations)
};

/// The settings have no secrets except in URLs; other credentials come from the environment and from files.
async fn config(State(settings): State<Arc<Settings>>, params: Params) -> Response {
    reply::text(shown_configuration(&settings, params.get("mode").unwrap_or("")))
}

/// The settings as YAML. `mode` is that of the endpoint.
pub fn shown_configuration(settings: &Settings, mode: &str) -> String {
    let mut settings = if mode == "defaults" { Settings::default() } else { settings.clone() };
    hide_secrets(&mut settings);
    let mut defaults = Settings::default();
    let mut page = String::new();
    let mut group = String::new();
    for named in Named::every() {
        let slot = named.slot(&mut settings);
        if mode == "diff" && slot.print() == named.slot(&mut defaults).print() {
            continue;
        }
        let (of, key) = named.key.split_once('.').unwrap_or(("", &named.key));
        if of != group {
            page.push_str(&format!("{of}:\n"));
            of.clone_into(&mut group);
        }
        page.push_str(&yaml::line(if of.is_empty() { "" } else { "  " }, key, &slot));
    }
    page
}

/// Removes user information from URLs, and the paths of webhooks, which often contain secrets.
pub fn hide_secrets(settings: &mut Settings) {
    settings.store = without_secrets(&settings.store);
    settings.alertmanager_url.iter_mut().for_each(|url| *url = without_secrets(url));
    settings.notify.webhook.iter_mut().for_each(|url| *url = host_of(url));
}

/// A URL without user information.
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

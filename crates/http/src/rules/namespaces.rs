//! Rule groups by namespace, as Loki's ruler lists them. A namespace is a rule file of this process, and only
//! groups with rules in LogQL are listed. Rules come from files, so storing or deleting one fails with an
//! explanation.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_base::units::format_duration;
use sandur_model::go_text::quote;
use sandur_rules::{GroupShown, Language, Pairs, RuleKind, RuleSpec, RulesShown};

use super::super::reply;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, GET, Group, Handler, POST, Route, Verb};

/// The rule groups of a tenant.
pub static LIST: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/rules", "/api/prom/rules"],
    scope: Access::Read,
    does: "Groups with rules in LogQL that this process evaluates, by namespace; a namespace is the name of \
           a rule file.",
    answers: "200, YAML: `NAMESPACE: [{name, interval, rules}, ..]`.",
    fails: "404 `no rule groups found`, which Grafana reads as an empty list.",
    handler: |request, app| all_groups.call(request, app),
    ..Route::of(Group::Rules)
};

/// The rule groups of a namespace.
pub static NAMESPACE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    scope: Access::Read,
    does: "Groups of one namespace.",
    answers: "200, YAML like that of all namespaces.",
    fails: "404 `no rule groups found`.",
    handler: |request, app| groups_of_namespace.call(request, app),
    ..Route::of(Group::Rules)
};

/// A rule group.
pub static GROUP: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    scope: Access::Read,
    does: "A group with rules in LogQL.",
    answers: "200, YAML: `name`, `interval` and `rules`.",
    fails: "404 `group does not exist`.",
    handler: |request, app| one_group.call(request, app),
    ..Route::of(Group::Rules)
};

/// Stores a rule group.
pub static CREATE: Route = Route {
    methods: POST,
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    scope: Access::Write,
    does: "Refused: rules come from files (`--rules`).",
    answers: "none.",
    fails: "501: rules are not stored through the API.",
    handler: |request, app| create.call(request, app),
    ..Route::of(Group::Rules)
};

/// Deletes the rule groups of a namespace.
pub static DELETE_NAMESPACE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no namespace to delete.",
    answers: "none.",
    fails: "404 `group namespace does not exist`.",
    handler: |request, app| no_namespace.call(request, app),
    ..Route::of(Group::Rules)
};

/// Deletes a rule group.
pub static DELETE_GROUP: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no group to delete.",
    answers: "none.",
    fails: "404 `group does not exist`.",
    handler: |request, app| no_group.call(request, app),
    ..Route::of(Group::Rules)
};

/// The groups with rules in LogQL, by namespace.
fn logql_groups(shown: &RulesShown, call: &Call) -> BTreeMap<String, Vec<Arc<GroupShown>>> {
    let mut found: BTreeMap<String, Vec<Arc<GroupShown>>> = BTreeMap::new();
    for group in shown.groups(&call.caller.tenant) {
        if group.spec.rules.iter().any(|rule| rule.language == Language::Logql) {
            let file = group.spec.file.rsplit('/').next().unwrap_or_default().to_owned();
            found.entry(file).or_default().push(group);
        }
    }
    found
}

async fn all_groups(State(shown): State<RulesShown>, call: Call) -> Result<Response, Failure> {
    listed(&logql_groups(&shown, &call))
}

async fn groups_of_namespace(
    State(shown): State<RulesShown>,
    Path(namespace): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    let mut found = logql_groups(&shown, &call);
    found.retain(|name, _| *name == namespace);
    listed(&found)
}

async fn one_group(
    State(shown): State<RulesShown>,
    Path((namespace, name)): Path<(String, String)>,
    call: Call,
) -> Result<Response, Failure> {
    let found = logql_groups(&shown, &call);
    let groups = found.get(&namespace).map(Vec::as_slice).unwrap_or_default();
    let group = groups.iter().find(|group| group.spec.name == name);
    let group = group.ok_or_else(|| missing("group does not exist"))?;
    Ok(yaml(lines_of(group).join("\n") + "\n"))
}

fn listed(found: &BTreeMap<String, Vec<Arc<GroupShown>>>) -> Result<Response, Failure> {
    if found.is_empty() {
        return Err(missing("no rule groups found"));
    }
    let mut text = String::new();
    for (namespace, groups) in found {
        text.push_str(&format!("{}:\n", quote(namespace)));
        for group in groups {
            for (n, line) in lines_of(group).iter().enumerate() {
                text.push_str(if n == 0 { "    - " } else { "      " });
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    Ok(yaml(text))
}

fn yaml(text: String) -> Response {
    reply::with_type(HeaderValue::from_static("application/yaml"), text.into())
}

/// A group as lines of YAML. Texts are quoted as in JSON, which YAML reads.
fn lines_of(group: &GroupShown) -> Vec<String> {
    let spec = &group.spec;
    let mut lines = vec![
        format!("name: {}", quote(&spec.name)),
        format!("interval: {}", format_duration(spec.interval)),
        "rules:".to_owned(),
    ];
    for rule in spec.rules.iter().filter(|rule| rule.language == Language::Logql) {
        let of_rule = lines_of_rule(rule);
        let indented = of_rule.iter().enumerate();
        lines.extend(indented.map(|(n, line)| format!("{}{line}", if n == 0 { "    - " } else { "      " })));
    }
    lines
}

fn lines_of_rule(rule: &RuleSpec) -> Vec<String> {
    let key = if rule.is_alerting() { "alert" } else { "record" };
    let mut lines = vec![format!("{key}: {}", quote(&rule.name)), format!("expr: {}", quote(&rule.expr))];
    let mut add = |key: &str, pairs: &Pairs| {
        if !pairs.is_empty() {
            lines.push(format!("{key}:"));
            lines.extend(pairs.iter().map(|(name, value)| format!("    {}: {}", quote(name), quote(value))));
        }
    };
    add("labels", &rule.labels);
    if let RuleKind::Alerting { hold, keep_firing, annotations } = &rule.kind {
        add("annotations", annotations);
        for (key, duration) in [("for", hold), ("keep_firing_for", keep_firing)] {
            if !duration.is_zero() {
                lines.push(format!("{key}: {}", format_duration(*duration)));
            }
        }
    }
    lines
}

async fn no_group(_call: Call) -> Failure {
    missing("group does not exist")
}

async fn no_namespace(_call: Call) -> Failure {
    missing("group namespace does not exist")
}

async fn create(_call: Call) -> Failure {
    let text = "rules are not stored through the API: write them to a file, and start the server that shall \
                evaluate them with --rules FILE_OR_FOLDER\n";
    Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED)
}

/// Loki's answer when something does not exist; its text ends with a line break.
fn missing(text: &str) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("{text}\n"))
}

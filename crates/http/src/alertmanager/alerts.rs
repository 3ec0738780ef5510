//! The alerts that fire, in the form of Alertmanager's API v2.
//!
//! An answer has no place for warnings, so those about alerts that are not known are in headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_memory::Reservation;
use sandur_model::{Labels, MatchOp, Matcher};
use sandur_rules::data::Instant;
use sandur_rules::silence::{LabelFilter, Silences, Steps};
use sandur_rules::{AlertShown, Grouping, StatesEverywhere};
use serde_json::{Value, json};

use super::failed::Failed;
use super::json::time;
use super::status::receiver_names;
use crate::app::App;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::prometheus::reply::{JSON, PIECE_BYTES, Pieces, in_pieces};
use crate::route::{Access, GET, Group, Handler, Parameter, Route, parameter};
use crate::rules::alerting_groups;
use crate::warned;

const PARAMETERS: &[Parameter] = &[
    parameter("filter", "matchers of labels, `alertname=\"Down\"`; may be repeated"),
    parameter("active", "`false`: without alerts that are not silenced"),
    parameter("silenced", "`false`: without silenced alerts"),
    parameter("receiver", "a regular expression for names of receivers"),
];

/// The alerts.
pub static ALERTS: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/alerts"],
    scope: Access::RulesRead,
    does: "Alerts that fire, and the silences that silence them. Other processes are asked for the alerts of \
           their groups as for `/api/v1/rules`; a header `X-Sandur-Warning` names those that did not answer.",
    parameters: PARAMETERS,
    answers: "200, a list: `labels`, `annotations`, `startsAt`, `endsAt`, `updatedAt`, `fingerprint`, \
              `generatorURL`, `receivers`, `status`.",
    fails: "400 for an invalid parameter; 503 when there is no memory for the answer.",
    handler: |request, app| alerts.call(request, app),
    ..Route::of(Group::Rules)
};

/// The alerts by group.
pub static GROUPS: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/alerts/groups"],
    scope: Access::RulesRead,
    does: "Alerts that fire, by the labels of `notify.group_by`.",
    parameters: PARAMETERS,
    answers: "200, `[{\"labels\",\"receiver\",\"alerts\"},..]`.",
    fails: "400 for an invalid parameter; 503 when there is no memory for the answer.",
    handler: |request, app| groups.call(request, app),
    ..Route::of(Group::Rules)
};

/// Which alerts a request wants.
struct Wanted {
    has_active: bool,
    has_silenced: bool,
    has_receiver: bool,
}

impl Wanted {
    fn of(call: &Call, receivers: &[&str]) -> Result<Self, Failed> {
        let switch = |name: &str| match call.params.get(name) {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(Failed::invalid(format!("{name}: '{other}' is neither true nor false"))),
        };
        let has_receiver = match call.params.get("receiver") {
            None => true,
            Some(text) => {
                let matcher = Matcher::new("receiver", MatchOp::Regex, text);
                let matcher = matcher.map_err(|error| Failed::invalid(error.to_string()))?;
                receivers.iter().any(|name| matcher.matches(name))
            }
        };
        Ok(Self { has_active: switch("active")?, has_silenced: switch("silenced")?, has_receiver })
    }
}

/// The alerts of an answer, and what their JSON needs.
struct Shown {
    alerts: Vec<AlertShown>,
    silences: Arc<Silences>,
    receivers: Vec<&'static str>,
    wanted: Wanted,
    steps: Steps,
    now: Instant,
    warnings: Vec<String>,
    _memory: Reservation,
}

impl Shown {
    async fn of(app: &App, call: &Call) -> Result<Self, Failed> {
        let receivers = receiver_names(&app.rules);
        let filter = LabelFilter::parse(call.params.all("filter")).map_err(Failed::invalid)?;
        let wanted = Wanted::of(call, &receivers)?;
        let (rules, tenant) = (app.rules.clone(), &call.caller.tenant);
        let states = alerting_groups((&rules, &app.queries), &*app.others, tenant).await;
        let StatesEverywhere { groups, warnings, mut memory } = states;
        // The alerts are copied, with external labels.
        memory.grow(memory.bytes()).map_err(|short| {
            Failure::new(ErrorKind::Busy, format!("no memory for the alerts of other processes: {short}"))
        })?;
        let job = move || {
            let mut alerts = rules.firing(&groups);
            filter.retain(&mut alerts, |alert, name| alert.labels.get(name).map(str::to_owned))?;
            Ok(alerts)
        };
        let alerts = app.env.run_blocking(job).await.map_err(|error: String| Failed::invalid(error))?;
        Ok(Self {
            alerts,
            silences: app.stored_rules.silences(&call.caller.tenant),
            wanted,
            receivers,
            warnings,
            _memory: memory,
            steps: Steps::default(),
            now: Instant::of_ns(app.env.now_ns()),
        })
    }

    /// The JSON of an alert, if the request wants it.
    fn json(&mut self, number: usize) -> Option<Value> {
        let Self { alerts, silences, receivers, wanted, steps, now, .. } = self;
        let AlertShown { labels, alert, link } = alerts.get(number)?;
        if !wanted.has_receiver {
            return None;
        }
        let silenced_by: Vec<&str> = silences.of_alert(labels, *now, steps).collect();
        let is_wanted = if silenced_by.is_empty() { wanted.has_active } else { wanted.has_silenced };
        if !is_wanted {
            return None;
        }
        let state = if silenced_by.is_empty() { "active" } else { "suppressed" };
        let annotations = alert.annotations.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Some(json!({
            "annotations": object(annotations),
            "endsAt": time(alert.valid_until.unwrap_or(*now)),
            "fingerprint": format!("{:016x}", labels.stream_id().0 as u64),
            "receivers": receivers.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            "startsAt": time(alert.fired_at.unwrap_or(alert.active_at)),
            "status": { "inhibitedBy": [], "mutedBy": [], "silencedBy": silenced_by, "state": state },
            "updatedAt": time(alert.last_sent_at.unwrap_or(*now)),
            "generatorURL": &**link,
            "labels": object(labels.iter()),
        }))
    }
}

fn object<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

/// Groups of alerts by their numbers; a list without groups is one group without labels.
struct List {
    shown: Shown,
    groups: std::vec::IntoIter<(Option<Labels>, Vec<usize>)>,
    is_begun: bool,
    needs_comma: bool,
}

impl Pieces for List {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_begun {
            out.push(b'[');
            self.is_begun = true;
        }
        while out.len() < PIECE_BYTES {
            let Some((labels, numbers)) = self.groups.next() else {
                out.push(b']');
                return false;
            };
            let alerts: Vec<Value> =
                numbers.into_iter().filter_map(|number| self.shown.json(number)).collect();
            if alerts.is_empty() {
                continue;
            }
            let receiver = self.shown.receivers.first().copied().unwrap_or("none");
            let items = match labels {
                None => alerts,
                Some(labels) => {
                    let labels = object(labels.iter());
                    vec![json!({ "alerts": alerts, "labels": labels, "receiver": { "name": receiver } })]
                }
            };
            for item in items {
                if self.needs_comma {
                    out.push(b',');
                }
                self.needs_comma = true;
                out.extend_from_slice(item.to_string().as_bytes());
            }
        }
        true
    }
}

async fn alerts(State(app): State<App>, call: Call) -> Result<Response, Failed> {
    let shown = Shown::of(&app, &call).await?;
    let single = |number| (None, vec![number]);
    let groups: Vec<_> = (0..shown.alerts.len()).map(single).collect();
    Ok(answer(&app, &call, shown, groups).await)
}

async fn groups(State(app): State<App>, call: Call) -> Result<Response, Failed> {
    let shown = Shown::of(&app, &call).await?;
    let grouping = Grouping { by: Grouping::labels(&app.settings.notify.group_by), ..Grouping::default() };
    let mut groups: BTreeMap<Labels, Vec<usize>> = BTreeMap::new();
    for (number, alert) in shown.alerts.iter().enumerate() {
        groups.entry(grouping.labels_of(&alert.labels)).or_default().push(number);
    }
    let groups = groups.into_iter().map(|(labels, numbers)| (Some(labels), numbers)).collect();
    Ok(answer(&app, &call, shown, groups).await)
}

async fn answer(app: &App, call: &Call, shown: Shown, groups: Vec<(Option<Labels>, Vec<usize>)>) -> Response {
    let warnings = shown.warnings.clone();
    let list = List { shown, groups: groups.into_iter(), is_begun: false, needs_comma: false };
    let mut answer = in_pieces(&app.env, call, JSON, list, |_| ()).await;
    warned::show_texts(&warnings, answer.headers_mut());
    answer
}

//! `metrics/job/...`: accepts pushes as a Pushgateway does.
//!
//! No state is kept between pushes: samples are stored with the current time, and a series ends five
//! minutes after its last push. Series that a push or a DELETE replaces end with stale markers ([`group`]
//! says which series those are). Pushes to a group are stored one at a time with ascending timestamps.
//! Each is stored completely or not at all, except one that is too large to be stored at once.

mod group;
mod path;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use group::{FAILURE_TIME, Group, NAME, PUSH_TIME, with_name};
use sandur_ingest::{DecodedSamples, ImportOptions, SamplePush, Written, import};
use sandur_model::{
    Labels, MILLISECOND_NS, MetricKind, MetricMetadata, STALE_BITS, SampleBatch, StreamId, TenantId,
};
use sandur_runtime::{FairReservation, Place};
use sandur_service::{self as service, writes::Stored};
use xxhash_rust::xxh3::xxh3_64;

use crate::app::App;
use crate::call;
use crate::failed_request::Failure;
use crate::receive::receive;
use crate::route::{Access, Group as Routes, Handler, Route, Verb, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put, Verb::Delete],
    paths: &["/metrics/{*group}", "/api/v1/import/prometheus/metrics/{*group}"],
    group: Routes::Write,
    scope: Access::Write,
    open_to: |_| false,
    does: "Accepts pushes as a Pushgateway does. The samples get the current time and the labels of the \
           path. They are stored completely or not at all, unless the text is too large to be stored at \
           once: then an error says that parts of it may be stored. Series end with stale markers: POST ends \
           the series of the group whose metric is in the text but which are not, PUT all series that are \
           not in the text, DELETE all. A series belongs to the group if it has the labels of the group and \
           its last sample was written by a push to the group within `query.lookback_delta`; series that \
           were scraped with the same labels do not. `push_time_seconds` and `push_failure_time_seconds` \
           with the labels of the group are the times at which a push was last stored and refused, or 0 if \
           not within `query.lookback_delta`. No state is kept between pushes: a series that is not pushed \
           again ends after `query.lookback_delta`, so push more often than that.",
    parameters: &[parameter(
        "{group}",
        "part of the path: `job/NAME` and any number of `/LABEL/VALUE`; the value of `LABEL@base64` is in \
         base64",
    )],
    answers: "200; for DELETE 202.",
    fails: "like `import/prometheus`; then nothing is stored. Samples with timestamps are refused with 400, \
            as are a series that occurs twice and a second type or help text of a family. A label of the \
            path replaces one of the text.",
    several_tenants: false,
    handler: |request, app| gateway.call(request, app),
};

async fn gateway(
    State(app): State<App>,
    Path(group): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let tenant = call::tenant(&app, &parts.headers)?;
    let labels = path::labels(&group)?;
    let asked = Asked { app: &app, tenant: &tenant, key: Labels::from_pairs(&labels), labels: &labels };
    if parts.method == Method::DELETE {
        asked.delete().await?;
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let extra_labels = labels.clone().into_iter().collect();
    let options = ImportOptions { extra_labels, is_for_gateway: true, ..ImportOptions::default() };
    let decode = move |push: SamplePush<'_>, body, lent| import(push, &options, body, lent);
    let received = receive(&app, &tenant, &parts, body).await?;
    let admitted = app.writes.admit_samples(&tenant, received, decode).await;
    let outcome = match admitted {
        Ok((decoded, memory)) => match decoded.refused.text() {
            None => asked.replace((decoded, memory), parts.method == Method::PUT).await,
            Some(_) => Ok(Stored { written: Written::default(), refused: decoded.refused }),
        },
        Err(failure) => Err(failure),
    };
    app.writes.note_samples(&tenant, &outcome);
    let refusal = match outcome {
        Ok(stored) => stored.refused.text().map(Failure::invalid),
        Err(failure) => Some(Failure::from(failure)),
    };
    match refusal {
        None => Ok(StatusCode::OK.into_response()),
        Some(failure) => {
            if failure.status == StatusCode::BAD_REQUEST {
                // The client gets the reason whether or not it can be recorded.
                let _ = asked.note_failure().await;
            }
            Err(failure)
        }
    }
}

/// How far ahead of the clock samples of a group may be: pushes within one millisecond get consecutive ones.
const AHEAD_MS: i64 = 10_000;

/// A request for a group.
struct Asked<'r> {
    app: &'r App,
    tenant: &'r TenantId,
    labels: &'r BTreeMap<String, String>,
    /// The labels of the group, without those that are empty.
    key: Labels,
}

/// A group during the exclusive turn of a request.
struct Turn {
    group: Group,
    /// A timestamp later than all samples of the group, milliseconds.
    now_ms: i64,
    _place: Place,
}

impl Asked<'_> {
    /// Waits until no other request changes the group, and finds its series.
    async fn turn(&self) -> Result<Turn, service::Failure> {
        let Self { app, tenant, labels, key } = self;
        let number = key.stream_id().0 as u64 ^ xxh3_64(tenant.as_str().as_bytes());
        let mut place = app.groups.queue([number]);
        place.wait().await;
        let context = app.queries.samples_context(tenant, None);
        let now_ms = app.env.now_ns() / MILLISECOND_NS;
        let lookback = i64::try_from(app.settings.query.lookback_delta.as_millis()).unwrap_or(i64::MAX);
        let within = (now_ms.saturating_sub(lookback).saturating_add(1), now_ms.saturating_add(AHEAD_MS));
        let finding = group::find(app.queries.stored_samples(), &context, labels, within);
        let group = context.in_time(finding).await.and_then(|found| found)?;
        let now_ms = group.last_ms.map_or(now_ms, |last| now_ms.max(last.saturating_add(1)));
        Ok(Turn { group, now_ms, _place: place })
    }

    /// Stores a push and ends the series that it replaces: all series of the group, or those of the
    /// pushed metrics.
    async fn replace(
        &self,
        (mut decoded, memory): (DecodedSamples, FairReservation),
        all: bool,
    ) -> Result<Stored, service::Failure> {
        let Turn { group, now_ms, _place } = self.turn().await?;
        let key = self.key.clone();
        let series = decoded.batch.series.len() + group.series.len();
        let put_together = move || {
            let written = complete(&mut decoded.batch, &group, &key, (all, now_ms));
            decoded.written.samples = written;
            (decoded, group)
        };
        let (decoded, _group) = self.app.writes.compute(series, put_together).await;
        self.app.writes.store_decoded(self.tenant, decoded, Some(memory)).await
    }

    /// Ends all series of the group.
    async fn delete(&self) -> Result<(), service::Failure> {
        let Turn { group, now_ms, _place } = self.turn().await?;
        let mut batch = SampleBatch::new(self.tenant.clone());
        let ends = f64::from_bits(STALE_BITS);
        group.series.iter().for_each(|labels| batch.push(Arc::new(labels.clone()), [(now_ms, ends)]));
        for (name, value) in [(PUSH_TIME, group.push_time), (FAILURE_TIME, group.failure_time)] {
            if value.is_some() {
                batch.push(Arc::new(with_name(&self.key, name)), [(now_ms, ends)]);
            }
        }
        self.app.writes.intake().push(batch.into(), None).await.map(drop)
    }

    /// Records that a push was refused.
    async fn note_failure(&self) -> Result<(), service::Failure> {
        let Turn { group, now_ms, _place } = self.turn().await?;
        let mut batch = SampleBatch::new(self.tenant.clone());
        let times = (group.push_time.unwrap_or(0.0), seconds(now_ms));
        write_times(&mut batch, &self.key, now_ms, times);
        self.app.writes.intake().push(batch.into(), None).await.map(drop)
    }
}

/// Sets the timestamp of pushed samples, and adds stale markers of replaced series and the metrics of the
/// group. Returns the number of pushed samples.
fn complete(batch: &mut SampleBatch, group: &Group, key: &Labels, (all, now_ms): (bool, i64)) -> u64 {
    let is_own = |labels: &Labels| matches!(labels.get(NAME), Some(PUSH_TIME | FAILURE_TIME));
    let own = (0u32..).zip(&batch.series).filter(|(_, series)| is_own(&series.labels));
    let own: Vec<u32> = own.map(|(position, _)| position).collect();
    if !own.is_empty() {
        let pushed = std::mem::replace(batch, SampleBatch::new(batch.tenant.clone()));
        *batch = pushed.without_series(&own);
    }
    batch.drop_text();
    batch.timestamps.iter_mut().for_each(|time| *time = now_ms);
    let written = batch.timestamps.len() as u64;
    let pushed: HashSet<StreamId> = batch.series.iter().map(|series| series.id).collect();
    let metrics = metrics_of(batch);
    for labels in &group.series {
        let is_replaced = all || labels.get(NAME).is_some_and(|name| metrics.contains(name));
        if is_replaced && !pushed.contains(&labels.stream_id()) {
            batch.push(Arc::new(labels.clone()), [(now_ms, f64::from_bits(STALE_BITS))]);
        }
    }
    write_times(batch, key, now_ms, (seconds(now_ms), group.failure_time.unwrap_or(0.0)));
    written
}

/// Names of the pushed metrics' series: for histograms and summaries all that a family can have.
fn metrics_of(batch: &SampleBatch) -> HashSet<String> {
    let names = batch.series.iter().filter_map(|series| series.labels.get(NAME));
    let mut names: HashSet<String> = names.map(str::to_owned).collect();
    for MetricMetadata { family, kind, .. } in &batch.metadata {
        let of_family = ["", "_bucket", "_sum", "_count"].map(|ending| format!("{family}{ending}"));
        let has_several =
            matches!(kind, MetricKind::Histogram | MetricKind::GaugeHistogram | MetricKind::Summary);
        if has_several && of_family.iter().any(|name| names.contains(name)) {
            names.extend(of_family);
        }
    }
    names
}

fn write_times(batch: &mut SampleBatch, key: &Labels, now_ms: i64, (pushed, failed): (f64, f64)) {
    for (name, value) in [(PUSH_TIME, pushed), (FAILURE_TIME, failed)] {
        batch.push(Arc::new(with_name(key, name)), [(now_ms, value)]);
    }
    let described = [
        (PUSH_TIME, "When a push to the group was stored last, in seconds since the epoch."),
        (FAILURE_TIME, "When a push to the group was refused last, in seconds since the epoch."),
    ];
    batch.metadata.retain(|metadata| described.iter().all(|(name, _)| *metadata.family != **name));
    batch.metadata.extend(described.map(|(name, help)| MetricMetadata {
        family: name.into(),
        kind: MetricKind::Gauge,
        unit: "seconds".into(),
        help: help.into(),
    }));
}

fn seconds(time_ms: i64) -> f64 {
    time_ms as f64 / 1e3
}

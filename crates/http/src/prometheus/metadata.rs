//! `metadata`: type, unit and help of metric families.

use axum::extract::State;
use axum::response::Response;
use sandur_memory::Reservation;
use sandur_model::MetricMetadata;
use sandur_query::{MetadataSelection, QueryStats, SampleSource};
use sandur_service::Queries;
use sandur_service::query_log::{Asked, Outcome, QueryLog, Times};

use super::queries::refuse;
use super::refused::Refused;
use super::reply::{BEGIN, JSON, PIECE_BYTES, Pieces, in_pieces, notes};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/metadata", "/prometheus/api/v1/metadata"],
    scope: Access::Read,
    does: "Type, unit and help of metric families, as senders and scrape targets reported them.",
    parameters: &[
        parameter("metric", "the family; by default all"),
        parameter("limit", "maximum number of families; by default all"),
        parameter("limit_per_metric", "maximum number of different metadata per family; by default all"),
    ],
    answers: "200, `{\"up\":[{\"type\":\"gauge\",\"unit\":\"\",\"help\":\"..\"}],..}` as `data`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| metadata.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn metadata(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let selection = MetadataSelection {
        family: call.params.get("metric").map(str::to_owned),
        limit: most(&call, "limit")?,
        limit_per_family: most(&call, "limit_per_metric")?.filter(|most| *most > 0),
    };
    let source = queries.samples();
    let now_ns = queries.env().now_ns();
    let family = selection.family.clone().unwrap_or_default();
    let asked = Asked::other("metadata", &family, Times { start_ns: now_ns, end_ns: now_ns }).of_metrics();
    let log = QueryLog::begin(&queries, &call.caller, &context, asked);
    let found = context.in_time(source.metadata(&context, selection)).await.and_then(|found| found);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let refused = Refused::from(error);
            let cost = log.cost();
            log.end(&cost, Outcome::from(&refused));
            return Err(refused);
        }
    };
    QueryStats::add(&context.stats().entries_returned, found.metrics.len() as u64);
    let cost = log.cost();
    let families = Families {
        all: found.metrics.into_iter().peekable(),
        before: None,
        warnings: context.warnings(),
        _memory: found.held,
    };
    let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
    Ok(in_pieces(queries.env(), &call, JSON, families, ended).await)
}

/// A limit. A negative one means no limit.
fn most(call: &Call, name: &str) -> Result<Option<usize>, Refused> {
    let Some(text) = call.params.get(name) else { return Ok(None) };
    let number: i64 = text.parse().map_err(|_| refuse(&format!("{name} must be a number")))?;
    Ok(usize::try_from(number).ok())
}

/// Metadata of metric families, sorted by family.
struct Families {
    all: std::iter::Peekable<std::vec::IntoIter<MetricMetadata>>,
    before: Option<Box<str>>,
    warnings: Vec<String>,
    _memory: Option<Reservation>,
}

impl Pieces for Families {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.before.is_none() {
            out.extend_from_slice(BEGIN);
            out.push(b'{');
        }
        while out.len() < PIECE_BYTES {
            let Some(one) = self.all.next() else {
                out.extend_from_slice(b"}");
                notes(out, "warnings", &self.warnings);
                out.push(b'}');
                return false;
            };
            if self.before.as_deref() != Some(&*one.family) {
                if self.before.is_some() {
                    out.push(b',');
                }
                json::utf8(out, &one.family);
                out.extend_from_slice(b":[");
            } else {
                out.push(b',');
            }
            write(out, &one);
            if self.all.peek().is_none_or(|next| next.family != one.family) {
                out.push(b']');
            }
            self.before = Some(one.family.as_ref().into());
        }
        true
    }
}

fn write(out: &mut Vec<u8>, one: &MetricMetadata) {
    out.extend_from_slice(b"{\"type\":");
    json::utf8(out, one.kind.as_str());
    out.extend_from_slice(b",\"unit\":");
    json::utf8(out, &one.unit);
    out.extend_from_slice(b",\"help\":");
    json::utf8(out, &one.help);
    out.push(b'}');
}

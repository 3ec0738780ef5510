//! `/sandur/differences`: how the lines inside a part of a time range differ from the others.

use axum::extract::State;
use axum::response::Response;
use sandur_model::TimeRange;
use sandur_service::Queries;
use sandur_service::logql::{self, Differences, DifferencesRequest, FieldDifference, ParsedQuery};
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::params::timestamp;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/sandur/differences"],
    scope: Access::Read,
    does: "Compares the lines inside a part of the time range (the box) with the other lines, and ranks the \
           fields by how much the shares of their values differ: labels, structured metadata, labels that \
           the query extracts, and, if the query has no stages but line filters, fields of JSON or logfmt \
           lines. A difference counts only if chance hardly explains it: it exceeds three standard \
           deviations, and where few rows decide, their probability is low, too. Of a side with more than \
           96 MiB of lines every n-th page is read.",
    parameters: &[
        parameter("query", "LogQL without aggregation; required"),
        START,
        END,
        SINCE,
        parameter("box_start", "first instant of the box; required"),
        parameter("box_end", "end of the box, exclusive; required"),
        parameter("limit", "maximum number of fields; 100"),
    ],
    answers: "200, `{\"inside\",\"outside\",\"everyInside\",\"everyOutside\",\"hasMoreFields\",\
              \"fields\":[{\"name\",\"origin\",\"score\",\"number\",\"restInside\",\"restOutside\",\
              \"restScoreMax\",\"valuesLeftOut\",\
              \"values\":[{\"value\",\"inside\",\"outside\"},..]},..]}`: numbers of lines; the \
              largest difference first; `score` is 0 if chance explains all differences of a \
              field; `value` is null for lines without the field. Counts are exact if `everyInside` and \
              `everyOutside` are 1: a value that is listed has all its lines, and `restInside` and \
              `restOutside` are lines with values beyond the first 10,000 of the field, of which none has a \
              larger score than `restScoreMax`.",
    fails: "400: not a query of lines, or the box is not inside of the range.",
    handler: |request, app| differences.call(request, app),
    ..Route::of(Group::Discovery)
};

/// Default number of fields in an answer.
pub const FIELDS_DEFAULT: u32 = 100;

async fn differences(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.ordered_range(&queries, &context)?;
    // The end is exclusive, as in queries of lines.
    let range = TimeRange::new(range.start, range.end.saturating_sub(1));
    let inside = box_of(&call, range)?;
    let fields = call.params.limit(FIELDS_DEFAULT)?;
    let limits = queries.limits(&call.caller.tenant);
    let text = call.params.query().to_owned();
    let parsed = ParsedQuery::read(&context, &limits, &text).await?.of_lines()?;
    let asked = Asked::other("differences", &text, times);
    let work = async {
        let turn = context.turn().await?;
        let request = DifferencesRequest { range, inside };
        let tags = &call.caller.tags;
        let found =
            logql::differences(queries.logs(), &context, &limits, tags, (&parsed, &text), request).await?;
        drop(turn);
        Ok(found)
    };
    let (found, _) = logged((&queries, &call.caller), &context, asked, work).await?;
    Ok(reply::json(body(&found, fields as usize)))
}

/// The box, which has to be a part of the range with a side outside of it.
fn box_of(call: &Call, range: TimeRange) -> Result<TimeRange, Failure> {
    let instant = |name: &str| {
        let text = call.params.get(name).ok_or_else(|| {
            Failure::invalid(format!(
                "the parameter {name} is missing: give the box as box_start and box_end\n"
            ))
        })?;
        timestamp(text).map_err(|error| Failure::invalid(format!("invalid {name}: {error}\n")))
    };
    let (start, end) = (instant("box_start")?.max(range.start), instant("box_end")?.min(range.end));
    if start >= end {
        return Err(Failure::invalid(
            "the box is empty or outside of the time range: box_start must be before box_end, and both \
             between start and end\n",
        ));
    }
    Ok(TimeRange::new(start, end))
}

/// The answer as JSON, with at most this many fields.
pub fn body(found: &Differences, fields: usize) -> Vec<u8> {
    let ([inside, outside], [every_inside, every_outside]) = (found.rows, found.every);
    let has_more = found.has_more || found.fields.len() > fields;
    let mut body = Vec::new();
    json::push(
        &mut body,
        format_args!(
            "{{\"inside\":{inside},\"outside\":{outside},\"everyInside\":{every_inside},\
             \"everyOutside\":{every_outside},\"hasMoreFields\":{has_more},\"fields\":["
        ),
    );
    for (n, field) in found.fields.iter().take(fields).enumerate() {
        if n > 0 {
            body.push(b',');
        }
        write_field(&mut body, field);
    }
    body.extend_from_slice(b"]}\n");
    body
}

fn write_field(body: &mut Vec<u8>, field: &FieldDifference) {
    body.extend_from_slice(b"{\"name\":");
    json::utf8(body, &field.name);
    let ([inside, outside], origin) = (field.rest, field.origin.name());
    let (score, number, left_out) = (field.score, field.number, field.values_left_out);
    let rest_score = field.rest_score_max;
    json::push(
        body,
        format_args!(
            ",\"origin\":\"{origin}\",\"score\":{score:.6},\"number\":{number},\"restInside\":{inside},\
             \"restOutside\":{outside},\"restScoreMax\":{rest_score:.6},\"valuesLeftOut\":{left_out},\
             \"values\":["
        ),
    );
    for (n, share) in field.values.iter().enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"value\":" } else { b",{\"value\":" });
        match &share.value {
            Some(value) => json::utf8(body, value),
            None => body.extend_from_slice(b"null"),
        }
        json::push(body, format_args!(",\"inside\":{},\"outside\":{}}}", share.inside, share.outside));
    }
    body.extend_from_slice(b"]}");
}

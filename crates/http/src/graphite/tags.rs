//! `tags`: tags, their values, and the series that have them.

use axum::extract::State;
use axum::response::Response;
use sandur_graphite::{
    Error, Rendered, StoredSeries, complete_tags, complete_values, find_series, list_tags, tag_multi_series,
    tag_series,
};
use sandur_query::QueryContext;
use sandur_service::Queries;

use super::answer::{EXPR, FAILS, FROM, JSONP, LIMIT, UNTIL, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, POST, Route, parameter};

/// All tags.
pub static LIST: Route = Route {
    methods: GET_POST,
    paths: paths!("/tags"),
    scope: Access::Read,
    does: "All tags.",
    parameters: &[
        parameter("filter", "a regular expression, matched at the start of tags"),
        LIMIT,
        FROM,
        UNTIL,
        JSONP,
    ],
    answers: "200, `[{\"tag\":\"dc\"},..]`.",
    fails: FAILS,
    handler: |request, app| list.call(request, app),
    ..Route::of(Group::Graphite)
};

/// Names of the series that match conditions.
pub static FIND: Route = Route {
    methods: GET_POST,
    paths: paths!("/tags/findSeries"),
    scope: Access::Read,
    does: "Names of the series that match the conditions.",
    parameters: &[EXPR, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    handler: |request, app| find.call(request, app),
    ..Route::of(Group::Graphite)
};

/// Tags with a prefix, of the series that match conditions.
pub static COMPLETE_NAMES: Route = Route {
    methods: GET_POST,
    paths: paths!("/tags/autoComplete/tags"),
    scope: Access::Read,
    does: "Tags with a prefix, of the series that match the conditions.",
    parameters: &[EXPR, parameter("tagPrefix", "the prefix"), LIMIT, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    handler: |request, app| names_with_prefix.call(request, app),
    ..Route::of(Group::Graphite)
};

/// Values of a tag with a prefix, of the series that match conditions.
pub static COMPLETE_VALUES: Route = Route {
    methods: GET_POST,
    paths: paths!("/tags/autoComplete/values"),
    scope: Access::Read,
    does: "Values of a tag with a prefix, of the series that match the conditions.",
    parameters: &[
        EXPR,
        parameter("tag", "the tag; required"),
        parameter("valuePrefix", "the prefix"),
        LIMIT,
        FROM,
        UNTIL,
        JSONP,
    ],
    answers: "200, a list.",
    fails: FAILS,
    handler: |request, app| values_with_prefix.call(request, app),
    ..Route::of(Group::Graphite)
};

/// The canonical name of a tagged series.
pub static SERIES: Route = Route {
    methods: POST,
    paths: paths!("/tags/tagSeries"),
    scope: Access::Write,
    does: "The canonical name of a tagged series. Nothing is stored: a series exists from its first value \
           on.",
    parameters: &[parameter("path", "the name; required"), JSONP],
    answers: "200, the name.",
    fails: FAILS,
    handler: |request, app| one_series.call(request, app),
    ..Route::of(Group::Graphite)
};

/// Canonical names of tagged series.
pub static MULTI_SERIES: Route = Route {
    methods: POST,
    paths: paths!("/tags/tagMultiSeries"),
    scope: Access::Write,
    does: "Canonical names of tagged series. Nothing is stored: a series exists from its first value on.",
    parameters: &[parameter("path", "a name; may be repeated"), JSONP],
    answers: "200, the names.",
    fails: FAILS,
    handler: |request, app| multi_series.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn list(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "expr", async |series, context| list_tags(series, context, &call.pairs).await)
        .await
}

async fn find(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "expr", async |series, context| find_series(series, context, &call.pairs).await)
        .await
}

async fn names_with_prefix(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "expr", async |series, context| {
        complete_tags(series, context, &call.pairs).await
    })
    .await
}

async fn values_with_prefix(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "expr", async |series, context| {
        complete_values(series, context, &call.pairs).await
    })
    .await
}

async fn one_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "path", async |series, context| tag_series(series, context, &call.pairs).await)
        .await
}

async fn multi_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    answered(queries, &call, "path", async |series, context| {
        tag_multi_series(series, context, &call.pairs).await
    })
    .await
}

/// Answers a request whose text in the log is the parameters with this name.
async fn answered(
    queries: Queries,
    call: &GraphiteCall,
    text: &str,
    work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
) -> Result<Response, Failure> {
    let described = within(&queries, call, named("tags", call, &[text]))?;
    answer(&queries, call, described, work).await
}

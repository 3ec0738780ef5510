//! `render`: the values of targets.

use axum::extract::State;
use axum::response::Response;
use sandur_graphite::{FetchRequest, RenderRequest, Rendered, Zone, read_fetches};
use sandur_service::Queries;
use sandur_service::graphite::{GraphiteRequest, rendered};

use super::answer::{FAILS, FROM, JSONP, UNTIL, answer, failure, now};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: paths!("/render"),
    scope: Access::Read,
    does: "Values of targets, as in graphite-web; with carbonapi's protocols the targets are in a body.",
    parameters: &[
        parameter("target", "a path, a pattern or a function of these; may be repeated"),
        FROM,
        UNTIL,
        parameter(
            "format",
            "`png` (default), `svg`, `json`, `raw`, `csv`, `pickle`, `msgpack`, `dygraph`, `rickshaw`, \
             `protobuf`, `carbonapi_v2_pb`, `carbonapi_v3_pb`",
        ),
        parameter(
            "width, height, title, vtitle, bgcolor, fgcolor, colorList, template, lineMode, areaMode, ..",
            "the appearance of an image, as in graphite-web; at most 4,000,000 pixels, and 8,000 per side",
        ),
        parameter(
            "graphType, pieMode, pieLabels, valueLabels, valueLabelsMin, valueLabelsColor",
            "`pie`: a pie chart with a slice for each series, and its appearance, as in graphite-web; a \
             target may be `name:number`",
        ),
        parameter("maxDataPoints", "maximum number of points per series"),
        parameter("noNullPoints", "leaves out points without a value"),
        parameter("xFilesFactor", "minimum share of values for a consolidated point"),
        parameter("template[NAME]", "the value of a variable of `template()`"),
        parameter("tz", "the time zone"),
        parameter("now", "the time that counts as now"),
        parameter("pretty", "indented JSON"),
        JSONP,
    ],
    answers: "200, series in the requested format.",
    fails: FAILS,
    handler: |request, app| render.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn render(State(queries): State<Queries>, mut call: GraphiteCall) -> Result<Response, Failure> {
    let is_newer = !call.body.is_empty() && call.format() == Some("carbonapi_v3_pb");
    let read = |pairs: &[(String, String)]| RenderRequest::read(pairs, now(&queries), &Zone::utc());
    let requests = match is_newer {
        true => read_fetches(&call.body).and_then(|fetches| {
            fetches
                .iter()
                .map(|fetch| read(&pairs_of(fetch, "carbonapi_v3_pb")))
                .collect::<Result<Vec<_>, _>>()
        }),
        false => read(&call.pairs).map(|request| vec![request]),
    };
    let requests = requests.map_err(|error| failure(&error))?;
    // The parsed requests hold what they need of the parameters, in the memory reserved for these.
    call.pairs = Vec::new();
    let targets: Vec<&str> = requests.iter().flat_map(|one| &one.targets).map(String::as_str).collect();
    let times = requests.first().map(|one| (one.from.epoch, one.until.epoch));
    let described = GraphiteRequest { kind: "render", text: targets.join(" "), times };
    let [request] = requests.as_slice() else {
        // Concatenated protobuf messages are one message.
        return answer(&queries, &call, described, async |series, context| {
            let mut whole = Rendered { content_type: "application/x-carbonapi-v3-pb", body: Vec::new() };
            for request in &requests {
                whole.body.extend_from_slice(&rendered(series, context, request).await?.body);
            }
            Ok(whole)
        })
        .await;
    };
    answer(&queries, &call, described, async |series, context| rendered(series, context, request).await).await
}

/// Converts a request in carbonapi's body to parameters.
pub fn pairs_of(fetch: &FetchRequest, format: &str) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("target", fetch.name.clone()),
        ("from", fetch.from.to_string()),
        ("until", fetch.until.to_string()),
        ("format", format.to_owned()),
        ("pathExpression", fetch.path_expression.clone()),
    ];
    if fetch.max_data_points > 0 {
        pairs.push(("maxDataPoints", fetch.max_data_points.to_string()));
    }
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

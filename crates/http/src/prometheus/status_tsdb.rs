//! `status/tsdb`: the metrics and labels with the most series.

use axum::extract::State;
use axum::response::Response;
use foldhash::{HashMap, HashMapExt};
use sandur_memory::Reservation;
use sandur_memory::job::spend;
use sandur_query::{Error, QueryContext, SeriesIndex};
use sandur_service::Queries;
use sandur_service::query_log::{Asked, Outcome, QueryLog};

use super::queries::refuse;
use super::refused::Refused;
use super::reply::success;
use super::selectors::Request;
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/tsdb", "/prometheus/api/v1/status/tsdb"],
    scope: Access::Read,
    does: "The metrics and labels with the most series, among series that match any selector and have \
           samples in the last two hours, or in the given range.",
    parameters: &[
        parameter("limit", "rows of each table; 10, at most 10,000"),
        parameter("match[]", "a selector; may be repeated; by default every series"),
        parameter("start", "first instant; by default two hours ago"),
        parameter("end", "last instant; by default now"),
    ],
    answers: "200, \
              `{\"headStats\":{\"numSeries\",..},\"seriesCountByMetricName\":[{\"name\",\"value\"},..],\
                  ..}` as `data`.",
    fails: "400 `bad_data`; 422 `execution`: more series than the memory of a query allows.",
    several_tenants: true,
    handler: |request, app| tsdb.call(request, app),
    ..Route::of(Group::Metrics)
};

const ROWS_DEFAULT: usize = 10;
const ROWS_MAX: usize = 10_000;
const TWO_HOURS_MS: i64 = 7_200_000;

async fn tsdb(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let rows = match call.params.get("limit") {
        None => ROWS_DEFAULT,
        Some(text) => {
            let number = text.parse::<usize>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| refuse("limit must be a positive number"))?
        }
    };
    if rows > ROWS_MAX {
        return Err(refuse(&format!("limit must not exceed {ROWS_MAX}")));
    }
    let now_ms = queries.env().now_ns().div_euclid(1_000_000);
    let request = Request::read(&context, &call, (now_ms - TWO_HOURS_MS, now_ms)).await?;
    let times = request.times;
    let log = QueryLog::begin(
        &queries,
        &call.caller,
        &context,
        Asked::other("cardinality", "", times).of_metrics(),
    );
    let work = async {
        let source = queries.samples();
        let mut scan = source.series(&context, request.series()).await?;
        let mut counts = Counts::new(&context)?;
        while let Some(batch) = scan.next().await? {
            let add = move || {
                (0..batch.labels.len()).try_for_each(|series| counts.add(batch.pairs(series)))?;
                Ok(counts)
            };
            counts = context.compute(add).await?;
        }
        Ok(counts)
    };
    let counted = context.in_time(work).await.and_then(|counted| counted).map_err(Refused::from);
    let cost = log.cost();
    log.end(&cost, counted.as_ref().map_or_else(Outcome::from, |_| Outcome::answered(0)));
    let counts = counted?;
    let ms = |ns: i64| ns.div_euclid(1_000_000);
    let bounds = (ms(times.start_ns), ms(times.end_ns));
    Ok(success(|out| counts.write(out, rows, bounds), &context.warnings()))
}

/// Counts of the names and values of labels.
struct Counts {
    series: u64,
    /// For each label, its values with the number of series that have them.
    values: HashMap<Box<str>, HashMap<Box<str>, u64>>,
    memory: Reservation,
}

/// Bytes of a name or value in addition to its characters.
const TEXT_BYTES: u64 = 64;

impl Counts {
    fn new(context: &QueryContext) -> Result<Self, Error> {
        Ok(Self { series: 0, values: HashMap::new(), memory: context.budget().reserve(0)? })
    }

    fn add<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), Error> {
        self.series += 1;
        for (name, value) in labels {
            spend(64)?;
            if !self.values.contains_key(name) {
                self.memory.grow(name.len() as u64 + TEXT_BYTES)?;
                self.values.insert(name.into(), HashMap::new());
            }
            let Some(values) = self.values.get_mut(name) else { continue };
            match values.get_mut(value) {
                Some(count) => *count += 1,
                None => {
                    self.memory.grow(value.len() as u64 + TEXT_BYTES)?;
                    values.insert(value.into(), 1);
                }
            }
        }
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>, rows: usize, (first_ms, last_ms): (i64, i64)) {
        let pairs: usize = self.values.values().map(HashMap::len).sum();
        json::push(
            out,
            format_args!(
                "{{\"headStats\":{{\"numSeries\":{},\"numLabelPairs\":{pairs},\"chunkCount\":0,\
                 \"minTime\":{first_ms},\"maxTime\":{last_ms}}}",
                self.series
            ),
        );
        let metrics = self.values.get("__name__").into_iter().flatten();
        table(out, "seriesCountByMetricName", rows, metrics.map(|(name, count)| (name.to_string(), *count)));
        let values = self.values.iter().map(|(name, values)| (name.to_string(), values.len() as u64));
        table(out, "labelValueCountByLabelName", rows, values);
        let bytes = |values: &HashMap<Box<str>, u64>| values.keys().map(|value| value.len() as u64).sum();
        let bytes = self.values.iter().map(|(name, values)| (name.to_string(), bytes(values)));
        table(out, "memoryInBytesByLabelName", rows, bytes);
        let each = self.values.iter().flat_map(|(name, values)| values.iter().map(move |of| (name, of)));
        let pairs = each.map(|(name, (value, count))| (format!("{name}={value}"), *count));
        table(out, "seriesCountByLabelValuePair", rows, pairs);
        out.push(b'}');
    }
}

/// Appends the rows with the largest values, by descending value and then by name.
fn table(out: &mut Vec<u8>, title: &str, rows: usize, all: impl Iterator<Item = (String, u64)>) {
    let mut largest = std::collections::BinaryHeap::new();
    for (name, value) in all {
        largest.push((std::cmp::Reverse(value), name));
        if largest.len() > rows {
            largest.pop();
        }
    }
    json::push(out, format_args!(",\"{title}\":["));
    for (n, (value, name)) in largest.into_sorted_vec().into_iter().enumerate() {
        out.extend_from_slice(if n == 0 { b"{\"name\":" } else { b",{\"name\":" });
        json::utf8(out, &name);
        json::push(out, format_args!(",\"value\":{}}}", value.0));
    }
    out.push(b']');
}

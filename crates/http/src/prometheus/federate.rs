//! `federate`: the last samples of series, in the text format of a scrape.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use axum::extract::State;
use axum::response::Response;
use sandur_memory::Reservation;
use sandur_model::escaping::{Escaping, Named, push_quoted};
use sandur_model::{FloatHistogram, Labels, is_stale};
use sandur_query::{Error, QueryContext, SampleSelection, SampleSource, Samples};
use sandur_service::Queries;
use sandur_service::Visible;
use sandur_service::query_log::{Asked, Outcome, QueryLog, Times};

use super::numbers;
use super::refused::Refused;
use super::reply::{PIECE_BYTES, Pieces, in_pieces};
use super::selectors;
use crate::call::Call;
use crate::exposition::{Exposition, accepted};
use crate::marshal::json::push;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/federate", "/prometheus/federate"],
    scope: Access::Read,
    does: "The last sample of each series that matches any selector and is no older than \
           `query.lookback_delta`, by name of metric, with its time. Histograms with custom buckets become \
           classic ones; exponential ones, which the text formats cannot represent, are left out.",
    parameters: &[parameter("match[]", "a selector; may be repeated; without one the answer is empty")],
    answers: "200, text in Prometheus's format; OpenMetrics when `Accept` prefers it. Its parameter \
              `escaping` determines how names with characters other than letters, digits and `_` are \
              written: `underscores` (default), `dots`, `values`, or `allow-utf-8` for names in quotes.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| federate.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn federate(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let lists = selectors::read(&context, &call).await?;
    let (exposition, escaping) = accepted(call.header("accept"));
    let now_ms = queries.env().now_ns().div_euclid(1_000_000);
    let lookback = i64::try_from(queries.options().lookback.as_millis()).unwrap_or(i64::MAX);
    let first_ms = now_ms.saturating_sub(lookback).saturating_add(1);
    let times = Times { start_ns: first_ms.saturating_mul(1_000_000), end_ns: queries.env().now_ns() };
    let text = call.params.all("match[]").collect::<Vec<_>>().join(":");
    let log = QueryLog::begin(
        &queries,
        &call.caller,
        &context,
        Asked::other("federate", &text, times).of_metrics(),
    );
    let work = async {
        let mut last = LastSamples { all: BTreeMap::new(), memory: context.budget().reserve(0)? };
        for matchers in lists {
            let selection = SampleSelection::all(matchers, first_ms, now_ms);
            last.read(&queries.samples(), &context, selection).await?;
        }
        Ok::<_, Error>(last)
    };
    let found = context.in_time(work).await.and_then(|found| found);
    let cost = log.cost();
    match found {
        Ok(last) => {
            let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
            let lines = Federated {
                all: last.all.into_iter(),
                family: None,
                is_open: exposition != Exposition::Text,
                escaping,
                _memory: last.memory,
            };
            Ok(in_pieces(queries.env(), &call, exposition.content_type(escaping), lines, ended).await)
        }
        Err(error) => {
            let refused = Refused::from(error);
            log.end(&cost, Outcome::from(&refused));
            Err(refused)
        }
    }
}

/// A sample of the answer.
enum Shown {
    Float(f64),
    Histogram(std::sync::Arc<FloatHistogram>),
}

/// Metric name and labels; the answer is in this order.
type Key = (Box<str>, Labels);

/// The last samples of series.
struct LastSamples {
    all: BTreeMap<Key, (i64, Shown)>,
    memory: Reservation,
}

/// Bytes of an entry in addition to its strings.
const ENTRY_BYTES: u64 = 160;

impl LastSamples {
    async fn read(
        &mut self,
        source: &Visible<'_>,
        context: &QueryContext,
        selection: SampleSelection,
    ) -> Result<(), Error> {
        let (first, last) = (selection.first_ms, selection.last_ms);
        let mut scan = source.select(context, selection).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            for (n, samples) in batch.samples.iter().enumerate() {
                let Some(sample) = last_of(samples, (first, last)) else { continue };
                let labels = Labels::from_pairs(batch.pairs(n));
                let Some(name) = labels.get("__name__").map(Box::from) else { continue };
                let bytes = 2 * labels.text_bytes() as u64 + ENTRY_BYTES;
                if let Entry::Vacant(new) = self.all.entry((name, labels)) {
                    self.memory.grow(bytes)?;
                    new.insert(sample);
                }
            }
        }
        Ok(())
    }
}

/// The last sample between two timestamps (milliseconds, inclusive), unless it is a stale marker.
fn last_of(samples: &Samples, (first, last): (i64, i64)) -> Option<(i64, Shown)> {
    let before = |times: &[i64]| times.partition_point(|time| *time <= last).checked_sub(1);
    let float = before(&samples.times).map(|n| (samples.times[n], Shown::Float(samples.values[n])));
    let histogram = before(&samples.histogram_times)
        .map(|n| (samples.histogram_times[n], Shown::Histogram(samples.histograms[n].clone())));
    let latest = match (float, histogram) {
        (Some(float), Some(histogram)) if histogram.0 > float.0 => Some(histogram),
        (Some(float), _) => Some(float),
        (None, histogram) => histogram,
    };
    latest.filter(|(time, shown)| {
        let is_stale = match shown {
            Shown::Float(value) => is_stale(*value),
            Shown::Histogram(histogram) => is_stale(histogram.sum),
        };
        *time >= first && !is_stale
    })
}

/// The answer, written line by line.
struct Federated {
    all: std::collections::btree_map::IntoIter<Key, (i64, Shown)>,
    /// The family whose `# TYPE` line was written last, and whether it is a histogram.
    family: Option<(Box<str>, bool)>,
    is_open: bool,
    escaping: Escaping,
    _memory: Reservation,
}

impl Pieces for Federated {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while out.len() < PIECE_BYTES {
            let Some(((name, labels), (time, shown))) = self.all.next() else {
                if self.is_open {
                    out.extend_from_slice(b"# EOF\n");
                }
                return false;
            };
            match shown {
                Shown::Float(value) => {
                    self.begin(out, &name, false);
                    self.line(out, (&name, ""), &labels, None, (time, value));
                }
                Shown::Histogram(histogram) if histogram.is_custom() => {
                    self.begin(out, &name, true);
                    self.classic(out, &name, &labels, (time, &histogram));
                }
                Shown::Histogram(_) => {}
            }
        }
        true
    }
}

impl Federated {
    fn begin(&mut self, out: &mut Vec<u8>, name: &str, is_histogram: bool) {
        let is_known = |(known, of): &(Box<str>, bool)| **known == *name && *of == is_histogram;
        if self.family.as_ref().is_some_and(is_known) {
            return;
        }
        let kind = match (is_histogram, self.is_open) {
            (true, _) => "histogram",
            (false, true) => "unknown",
            (false, false) => "untyped",
        };
        out.extend_from_slice(b"# TYPE ");
        self.write_name(out, Named::Metric, name);
        push(out, format_args!(" {kind}\n"));
        self.family = Some((name.into(), is_histogram));
    }

    /// Writes a line: the name with a suffix, labels, the label `le` if given, time and value.
    fn line(
        &self,
        out: &mut Vec<u8>,
        (name, ending): (&str, &str),
        labels: &Labels,
        bound: Option<f64>,
        (time, value): (i64, f64),
    ) {
        let whole = format!("{name}{ending}");
        let whole = self.escaping.name(Named::Metric, &whole);
        let is_plain = Named::Metric.is_plain(&whole);
        if is_plain {
            out.extend_from_slice(whole.as_bytes());
        }
        out.push(b'{');
        if !is_plain {
            push_quoted(&whole, |part| out.extend_from_slice(part.as_bytes()));
            out.push(b',');
        }
        for (label, value) in labels.iter().filter(|(label, _)| *label != "__name__") {
            self.write_name(out, Named::Label, label);
            out.push(b'=');
            push_quoted(value, |part| out.extend_from_slice(part.as_bytes()));
            out.push(b',');
        }
        // Without it the scraping server would add its own `instance`.
        if labels.get("instance").is_none() {
            out.extend_from_slice(b"instance=\"\",");
        }
        if let Some(bound) = bound {
            out.extend_from_slice(b"le=");
            numbers::quoted(out, bound);
            out.push(b',');
        }
        out.pop();
        out.extend_from_slice(b"} ");
        numbers::plain(out, value);
        out.push(b' ');
        match self.is_open {
            true => numbers::seconds(out, time),
            false => push(out, format_args!("{time}")),
        }
        out.push(b'\n');
    }

    /// Writes a name, quoted if needed.
    fn write_name(&self, out: &mut Vec<u8>, named: Named, name: &str) {
        out.extend_from_slice(named.written(&self.escaping.name(named, name)).as_bytes());
    }

    /// Writes a histogram with custom buckets as a classic one.
    fn classic(&self, out: &mut Vec<u8>, name: &str, labels: &Labels, (time, of): (i64, &FloatHistogram)) {
        let mut below = 0.0;
        let mut buckets = of.positive.iter().peekable();
        for (n, bound) in of.bounds.iter().enumerate() {
            while let Some((_, count)) = buckets.next_if(|(index, _)| *index <= n as i32) {
                below += count;
            }
            self.line(out, (name, "_bucket"), labels, Some(*bound), (time, below));
        }
        self.line(out, (name, "_bucket"), labels, Some(f64::INFINITY), (time, of.count));
        self.line(out, (name, "_sum"), labels, None, (time, of.sum));
        self.line(out, (name, "_count"), labels, None, (time, of.count));
    }
}

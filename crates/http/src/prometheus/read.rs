//! `read`: series with their samples, by Prometheus's remote read protocol.
//!
//! An answer of type `SAMPLES` is one snappy block, which the client has to hold in memory anyway; here
//! it is reserved from the query's budget. An answer of type `STREAMED_XOR_CHUNKS` is frames, series by
//! series, and only a batch is in memory.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sandur_protobuf::{Writer as _, prometheus};
use sandur_query::{Error, QueryContext, SampleScan, SampleSelection, SampleSource, Samples, SeriesBatch};
use sandur_service::Queries;
use sandur_service::promql::selector_text;
use sandur_service::query_log::{Asked, Outcome, QueryLog, Times};
use sandur_service::writes::parties;

use super::read_chunks::{self, Chunk};
use super::read_request::{ReadQuery, ReadRequest};
use super::refused::Refused;
use crate::app::App;
use crate::body::BodyLimits;
use crate::call::{self, Call};
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/api/v1/read", "/prometheus/api/v1/read"],
    scope: Access::Read,
    does: "Series with their samples, by remote read: `SAMPLES`, or `STREAMED_XOR_CHUNKS` if the client \
           prefers it. The body is protobuf in a snappy block.",
    answers: "200, protobuf: a snappy block, or frames.",
    fails: "400: the body cannot be decoded; 413; 422: more samples than `query.max_samples` or the memory \
            of a query allows; 429; 503.",
    handler: |request, app| read.call(request, app),
    ..Route::of(Group::Metrics)
};

const BODY_MAX: u64 = 1 << 20;
const PLAIN_MAX: usize = 4 << 20;
/// A frame is complete when it has at least this many bytes.
const FRAME_BYTES: usize = 1 << 20;
const SAMPLES: u64 = 0;
const CHUNKS: u64 = 1;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const FRAMES: HeaderValue =
    HeaderValue::from_static("application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse");

async fn read(State(app): State<App>, request: Request) -> Response {
    answer(app, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(app: App, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let tenant = call::tenant(&app, &parts.headers)?;
    let limits = BodyLimits {
        env: &app.env,
        size_max: BODY_MAX,
        size_limit: "size of a remote read request",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: app.writes.memory(),
        parties: parties(tenant.as_str(), parts.extensions.get().copied()),
    };
    let received = limits.read(&parts.headers, body).await?;
    let context = app.queries.samples_context(&tenant, None);
    let bytes = received.bytes.clone();
    let decoded = context.compute_here(|| Ok(decode(&bytes))).map_err(in_words)?;
    let ReadRequest { queries, accepted } = decoded.map_err(Failure::invalid)?;
    drop(received);
    let is_known = |kind: &&u64| matches!(**kind, SAMPLES | CHUNKS);
    let kind = match accepted.iter().find(is_known) {
        Some(kind) => *kind,
        None if accepted.is_empty() => SAMPLES,
        None => {
            let text = format!("server does not support any of the requested response types: {accepted:?}");
            return Err(Failure::invalid(text));
        }
    };
    let call = Call::without_parameters(tenant, &parts)?;
    let log = QueryLog::begin(&app.queries, &call.caller, &context, asked(&queries));
    if kind == CHUNKS {
        return in_frames(app.queries.clone(), context, queries, log).await.map_err(in_words);
    }
    let packed = context.in_time(samples(&app.queries, &context, queries)).await.and_then(|packed| packed);
    let packed = packed.map_err(in_words);
    end(log, packed.as_ref().map_or_else(Outcome::from, |packed| Outcome::answered(packed.len() as u64)));
    let mut response = reply::with_type(PROTOBUF, packed?);
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    Ok(response)
}

/// The log line of a request: its selectors, and the range from the earliest start to the latest end.
fn asked(queries: &[ReadQuery]) -> Asked {
    let ns = |ms: i64| ms.saturating_mul(sandur_model::MILLISECOND_NS);
    let start_ns = ns(queries.iter().map(|query| query.bounds_ms.0).min().unwrap_or(0));
    let end_ns = ns(queries.iter().map(|query| query.bounds_ms.1).max().unwrap_or(0));
    let selectors: Vec<String> = queries.iter().map(|query| selector_text(&query.matchers)).collect();
    Asked::other("remote_read", &selectors.join(":"), Times { start_ns, end_ns }).of_metrics()
}

fn end(log: QueryLog, outcome: Outcome) {
    let cost = log.cost();
    log.end(&cost, outcome);
}

/// Converts a failure of the query to plain text, as clients of remote read expect it.
fn in_words(error: Error) -> Failure {
    let refused = Refused::from(error);
    let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Failure::invalid(refused.message).with_status(status)
}

fn decode(body: &[u8]) -> Result<ReadRequest, String> {
    let length = snap::raw::decompress_len(body).map_err(|error| error.to_string())?;
    if length > PLAIN_MAX {
        return Err(format!("{length} bytes are declared, at most {PLAIN_MAX}"));
    }
    let plain = snap::raw::Decoder::new().decompress_vec(body).map_err(|error| error.to_string())?;
    ReadRequest::decode(&plain).map_err(|unreadable| unreadable.0)
}

async fn open(
    service: &Queries,
    context: &QueryContext,
    query: &ReadQuery,
) -> Result<Box<dyn SampleScan>, Error> {
    let (first, last) = query.bounds_ms;
    let selection = SampleSelection::all(query.matchers.clone(), first, last);
    service.samples().select(context, selection).await
}

/// The index ranges of a series' floats and histograms between two timestamps (inclusive).
fn within(samples: &Samples, (first, last): (i64, i64)) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let range = |times: &[i64]| {
        let from = times.partition_point(|time| *time < first);
        from..times.partition_point(|time| *time <= last).max(from)
    };
    (range(&samples.times), range(&samples.histogram_times))
}

/// Encodes all series in one snappy block.
async fn samples(service: &Queries, context: &QueryContext, queries: Vec<ReadQuery>) -> Result<Bytes, Error> {
    let mut memory = context.budget().reserve(0)?;
    let (mut message, mut left) = (Vec::new(), service.options().samples_max);
    for query in &queries {
        let mut result = Vec::new();
        let mut scan = open(service, context, query).await?;
        while let Some(batch) = scan.next().await? {
            let count: usize = batch.samples.iter().map(|of| of.times.len() + of.histograms.len()).sum();
            left = left.checked_sub(count as u64).ok_or_else(|| {
                let most = service.options().samples_max;
                Error::Limit(format!(
                    "exceeded sample limit ({most}, query.max_samples); ask for less at once"
                ))
            })?;
            let (bounds, before) = (query.bounds_ms, result.len());
            result = context
                .compute(move || {
                    batch_of_samples(&mut result, &batch, bounds)?;
                    Ok(result)
                })
                .await?;
            memory.grow((result.len() - before) as u64 * 2)?;
        }
        message.bytes(1, &result);
    }
    memory.grow(snap::raw::max_compress_len(message.len()) as u64)?;
    let packed = context.compute(move || {
        let packed = snap::raw::Encoder::new().compress_vec(&message);
        packed.map_err(|error| Error::Limit(format!("the answer is too long for snappy: {error}")))
    });
    Ok(reply::HeldBytes::of(packed.await?, Some(memory)))
}

fn batch_of_samples(out: &mut Vec<u8>, batch: &SeriesBatch, bounds: (i64, i64)) -> Result<(), Error> {
    for (n, samples) in batch.samples.iter().enumerate() {
        let (floats, histograms) = within(samples, bounds);
        if floats.is_empty() && histograms.is_empty() {
            continue;
        }
        sandur_memory::job::spend(512 + floats.len() * 16 + histograms.len() * 1_024)?;
        out.message(1, |series| {
            prometheus::labels(series, batch.pairs(n));
            for at in floats {
                prometheus::sample(series, samples.times[at], samples.values[at]);
            }
            for at in histograms {
                let (time_ms, histogram) = (samples.histogram_times[at], &samples.histograms[at]);
                prometheus::histogram(series, time_ms, histogram, false);
            }
        });
    }
    Ok(())
}

/// Streams series by series in frames. An error after the first frames closes the connection, by which
/// the client sees that the answer is incomplete.
async fn in_frames(
    service: Queries,
    context: QueryContext,
    queries: Vec<ReadQuery>,
    log: QueryLog,
) -> Result<Response, Error> {
    let queries = queries.into_iter().enumerate();
    let mut framing = Framing { service, context, queries, scan: None, sent: 0, log: Some(log) };
    // Keep the memory that the first frames needed for the later ones.
    framing.context.budget().keep_what_is_freed();
    let first = framing.logged_frames().await?;
    let stream = futures_util::stream::unfold(first.map(|first| (first, framing)), |state| async {
        let (frames, mut framing) = state?;
        let next = match framing.logged_frames().await {
            Ok(next) => next.map(|next| (next, framing)),
            Err(error) => {
                tracing::warn!(%error, "a remote read failed after its first frames");
                return Some((Err(std::io::Error::other(error.to_string())), None));
            }
        };
        Some((Ok(frames), next))
    });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert(header::CONTENT_TYPE, FRAMES);
    Ok(response)
}

/// A running scan: the number of its query, and the query's bounds.
struct Running {
    number: usize,
    bounds_ms: (i64, i64),
    scan: Box<dyn SampleScan>,
}

struct Framing {
    service: Queries,
    context: QueryContext,
    queries: std::iter::Enumerate<std::vec::IntoIter<ReadQuery>>,
    scan: Option<Running>,
    /// Bytes of frames so far.
    sent: u64,
    /// Present until the end is logged.
    log: Option<QueryLog>,
}

impl Framing {
    /// Like [`Framing::frames`]; also logs the end.
    async fn logged_frames(&mut self) -> Result<Option<Bytes>, Error> {
        let frames = self.frames().await;
        let outcome = match &frames {
            Ok(Some(frames)) => {
                self.sent += frames.len() as u64;
                return Ok(Some(frames.clone()));
            }
            Ok(None) => Outcome::answered(self.sent),
            Err(error) => Outcome::from(&Refused::from(error.clone())),
        };
        if let Some(log) = self.log.take() {
            end(log, outcome);
        }
        frames
    }

    /// The frames of the next batch; `None` at the end.
    async fn frames(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(running) = &mut self.scan else {
                let Some((number, query)) = self.queries.next() else { return Ok(None) };
                let scan = open(&self.service, &self.context, &query).await?;
                self.scan = Some(Running { number, bounds_ms: query.bounds_ms, scan });
                continue;
            };
            let (number, bounds) = (running.number as u64, running.bounds_ms);
            let Some(batch) = self.context.in_time(running.scan.next()).await?? else {
                self.scan = None;
                continue;
            };
            let framed = self.context.compute(move || frames_of(&batch, number, bounds)).await?;
            // They leave the query's account, since their sender frees them.
            self.context.account().hand_over(framed.capacity());
            if !framed.is_empty() {
                return Ok(Some(framed.into()));
            }
        }
    }
}

fn frames_of(batch: &SeriesBatch, query: u64, bounds: (i64, i64)) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    for (n, samples) in batch.samples.iter().enumerate() {
        let (floats, histograms) = within(samples, bounds);
        sandur_memory::job::spend(512 + floats.len() * 32 + histograms.len() * 2_048)?;
        let mut chunks = read_chunks::floats(&samples.times[floats.clone()], &samples.values[floats]);
        let of_histograms = &samples.histograms[histograms.clone()];
        chunks.extend(read_chunks::histograms(&samples.histogram_times[histograms], of_histograms));
        chunks.sort_by_key(|chunk| chunk.bounds_ms);
        let mut labels = Vec::new();
        prometheus::labels(&mut labels, batch.pairs(n));
        let mut series = labels.clone();
        let last = chunks.len();
        for (at, chunk) in chunks.iter().enumerate() {
            write_chunk(&mut series, chunk);
            if series.len() >= FRAME_BYTES || at + 1 == last {
                frame(&mut out, &series, query);
                series.clone_from(&labels);
            }
        }
    }
    Ok(out)
}

fn write_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    out.message(2, |message| {
        message.number(1, chunk.bounds_ms.0 as u64);
        message.number(2, chunk.bounds_ms.1 as u64);
        message.number(3, chunk.kind as u64);
        message.bytes(4, &chunk.bytes);
    });
}

/// Appends a frame: length of the message, its CRC-32C, the message.
fn frame(out: &mut Vec<u8>, series: &[u8], query: u64) {
    let mut message = Vec::with_capacity(series.len() + 16);
    message.bytes(1, series);
    message.number(2, query);
    out.raw_varint(message.len() as u64);
    out.extend_from_slice(&crc32c::crc32c(&message).to_be_bytes());
    out.extend_from_slice(&message);
}

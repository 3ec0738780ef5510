//! `tail`: sends new rows over a websocket, after rows of the past.
//!
//! History and live rows are joined without a gap: the follower starts first, then the history is read,
//! and live rows that the history contained are left out. A client that reads too slowly loses rows; a
//! frame says how many. Warnings of the history, and those for rows of other processes that may be late, are
//! sent in frames, too.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::{Stream, StreamExt};
use sandur_model::{Limits, LogPage, TenantId};
use sandur_query::{Direction, Follow, Followed, LogRow, QueryContext, QueryResult};
use sandur_runtime::Lane;
use sandur_service::logql::{self, LineQuery, ParsedQuery, QueryKind, QueryText};
use sandur_service::{Following, on_text};

use super::queries::Shape;
use crate::app::App;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::gate::Standing;
use crate::marshal::{Encoding, json, legacy_streams, streams};
use crate::params::LIMIT_DEFAULT;
use crate::route::{Access, GET_POST, Group, Handler, QUERY, Route, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/tail"],
    scope: Access::Read,
    does: "Sends new lines over a websocket, after past lines. Browsers cannot set headers of websockets, \
           so `X-Scope-OrgID` and `X-Loki-Response-Encoding-Flags` may be parameters.",
    parameters: &[
        QUERY,
        START,
        parameter("limit", "maximum number of past lines; 100"),
        parameter("delay_for", "seconds to wait for late lines; 0, at most 5"),
    ],
    answers: "101; frames `{\"streams\":[..],\"dropped_entries\":[{\"labels\",\"timestamp\"}]}`, a ping each \
              second; while rows may be late, each 10 s a frame `{\"streams\":[],\"warnings\":[..]}`, and \
              one with an empty list when that is over; a failure closes the websocket with 1011 and its \
              text, a message of the client of more than 4 KiB with 1009.",
    fails: "400: not a websocket, too many followers.",
    handler: |request, app| tail.call(request, app),
    ..Route::of(Group::Query)
};

/// Interval of pings.
const PING_EVERY: Duration = Duration::from_secs(1);
/// Interval of frames with the same warnings.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Maximum of `delay_for` in seconds.
const DELAY_MAX: u32 = 5;
/// Maximum rows of one frame.
const FRAME_ROWS_MAX: usize = 1_000;
/// Maximum bytes of the lines of one frame; a longer line has a frame of its own.
const FRAME_BYTES_MAX: usize = 256 << 10;
/// A client that does not accept a frame within this time is considered gone.
const SEND_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes of a message of the client, which needs to send only control frames.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Close code for failures of the server.
const INTERNAL_ERROR: u16 = 1011;
/// Close code when the client's credential is no longer valid.
const POLICY: u16 = 1008;
/// Close code for a client whose message is too large.
const TOO_LARGE: u16 = 1009;

/// The parameters of the request.
struct Asked {
    query: String,
    start_ns: i64,
    limit: u32,
    delay: Duration,
    shape: Shape,
    encoding: Encoding,
}

/// Upgrades the connection to a websocket and follows.
async fn tail(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    tail_in(Shape::Current, app, request).await
}

/// Like [`tail`], with frames of this format.
pub async fn tail_in(shape: Shape, app: App, request: Request) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &app).await;
    let standing = parts.extensions.get::<Standing>().cloned();
    let call = Call::from_request(Request::from_parts(parts, body), &app).await?;
    let upgrade = upgrade.map_err(|_| Failure::invalid("Bad Request"))?;
    let asked = read(&app, &call, shape)?;
    let context = app.queries.logs_context(&call.caller.tenant);
    let limits = app.queries.limits(&call.caller.tenant);
    let compile = move |text: &str| logql::compile_log_query(text, &limits);
    let query = on_text(&context, &asked.query, compile).await?;
    let most = app.queries.limits(&call.caller.tenant).max_concurrent_tail_requests;
    let following = app.queries.followers().enter(&call.caller.tenant, most)?;
    let followed = (standing, following);
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES_MAX).max_frame_size(MESSAGE_BYTES_MAX);
    let upgrade = upgrade.read_buffer_size(MESSAGE_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| run(app, call, asked, query, followed, socket)))
}

fn read(app: &App, call: &Call, shape: Shape) -> Result<Asked, Failure> {
    let params = &call.params;
    let delay: u32 = match params.get("delay_for") {
        None => 0,
        Some(text) => text
            .parse()
            .map_err(|_| Failure::invalid(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))?,
    };
    if delay > DELAY_MAX {
        return Err(Failure::invalid(format!("delay_for can't be greater than {DELAY_MAX}")));
    }
    let (start_ns, _) = params.bounds(app.env.now_ns())?;
    Ok(Asked {
        query: params.query().to_owned(),
        start_ns,
        limit: params.limit(LIMIT_DEFAULT)?,
        delay: Duration::from_secs(u64::from(delay)),
        shape,
        encoding: call.encoding(),
    })
}

async fn run(
    app: App,
    call: Call,
    asked: Asked,
    query: Result<LineQuery, sandur_service::Failure>,
    (standing, following): (Option<Standing>, Following),
    socket: WebSocket,
) {
    let (tenant, shape, encoding) = (call.caller.tenant.clone(), asked.shape, asked.encoding);
    let mut tail = Tail { app: app.clone(), tenant, socket, standing, shape, encoding, has_left: false };
    let outcome = async {
        let query = Arc::new(query?);
        // A follower has no deadline of its own: the timeout of queries does not apply.
        let context = app.queries.logs_context(&call.caller.tenant);
        let live = app.queries.logs().follow(&context, query.matchers())?;
        let mut lateness = Lateness::default();
        let sent = tail.history(&call, &asked, &mut lateness).await?;
        tail.live(live, &query, &asked, (sent, lateness)).await
    };
    let outcome: Result<End, Failure> = outcome.await;
    let frame = match outcome {
        Ok(End::Stopping) => CloseFrame { code: 1000, reason: "the server is stopping".into() },
        Ok(End::Revoked) => CloseFrame { code: POLICY, reason: "the credential was revoked".into() },
        Err(failure) => {
            let is_too_large = failure.status == StatusCode::PAYLOAD_TOO_LARGE;
            let code = if is_too_large { TOO_LARGE } else { INTERNAL_ERROR };
            CloseFrame { code, reason: close_reason(&failure.message).into() }
        }
    };
    if !tail.has_left {
        let _ = tail.app.env.timeout(SEND_PATIENCE, tail.socket.send(Message::Close(Some(frame)))).await;
    }
    drop(following);
}

/// Maximum rows of the history: the requested number, at most the tenant's limit; a limit of 0 means
/// none.
fn most_rows(asked: u32, limits: &Limits) -> u32 {
    match u32::try_from(limits.max_entries_limit_per_query) {
        Ok(most) if most > 0 => asked.min(most),
        _ => asked,
    }
}

/// A close frame carries at most 123 bytes of text.
fn close_reason(message: &str) -> String {
    message[..message.floor_char_boundary(123)].to_owned()
}

/// Identifies the rows of the history: timestamp, and hash of line and labels.
type Seen = HashSet<(i64, u64)>;

fn identity(row: &LogRow) -> (i64, u64) {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&row.line);
    for (name, value) in row.stream.iter().chain(row.metadata.iter()) {
        hasher.update(name.as_bytes());
        hasher.update(&[0xFF]);
        hasher.update(value.as_bytes());
        hasher.update(&[0xFF]);
    }
    (row.timestamp, hasher.digest())
}

/// Rows that are held back for `delay_for`, so that late rows are sent in order.
struct HeldBack {
    delay: Duration,
    /// Due time and rows, in order of due times.
    frames: VecDeque<(Duration, Vec<LogRow>)>,
    rows: usize,
    dropped: u64,
}

/// Maximum number of rows that are held back.
const HELD_ROWS_MAX: usize = 20_000;

impl HeldBack {
    fn hold(&mut self, rows: Vec<LogRow>, now: Duration) {
        if self.rows + rows.len() > HELD_ROWS_MAX {
            self.dropped += rows.len() as u64;
            return;
        }
        self.rows += rows.len();
        if !rows.is_empty() {
            self.frames.push_back((now + self.delay, rows));
        }
    }

    fn next_due(&self) -> Option<Duration> {
        self.frames.front().map(|(due, _)| *due)
    }

    /// The rows that are due, in order of their timestamps, about one frame of them.
    fn due(&mut self, now: Duration) -> Option<Vec<LogRow>> {
        let mut ready = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) && ready.len() < FRAME_ROWS_MAX {
            let (_, rows) = self.frames.pop_front()?;
            self.rows -= rows.len();
            ready.extend(rows);
        }
        ready.sort_by_key(|row| row.timestamp);
        (!ready.is_empty()).then_some(ready)
    }
}

/// When the client was warned that rows may be late, also by the history.
#[derive(Default)]
struct Lateness {
    warned_at: Option<Duration>,
}

impl Lateness {
    /// Whether to send the warnings that hold now. They contain ages, so they differ at each look.
    fn is_news(&mut self, are_late: bool, now: Duration) -> bool {
        let is_due = self.warned_at.is_none_or(|at| now >= at + WARN_EVERY);
        match (are_late, self.warned_at) {
            (true, _) if is_due => self.warned_at = Some(now),
            (false, Some(_)) => self.warned_at = None,
            _ => return false,
        }
        true
    }
}

/// Why a tail ends without a failure.
enum End {
    Stopping,
    /// The credential is no longer valid.
    Revoked,
}

struct Tail {
    app: App,
    tenant: TenantId,
    socket: WebSocket,
    /// The credential that admitted the client, if credentials are configured.
    standing: Option<Standing>,
    shape: Shape,
    encoding: Encoding,
    /// Whether the client took too long to read a message, or the connection failed.
    has_left: bool,
}

impl Tail {
    /// Sends the latest rows before now in ascending order. Returns their identities.
    async fn history(
        &mut self,
        call: &Call,
        asked: &Asked,
        lateness: &mut Lateness,
    ) -> Result<Seen, Failure> {
        let now_ns = self.app.env.now_ns();
        if asked.start_ns >= now_ns {
            return Ok(Seen::new());
        }
        let limits = self.app.queries.limits(&call.caller.tenant);
        let request = QueryText {
            query: asked.query.clone(),
            kind: QueryKind::Range { start_ns: asked.start_ns, end_ns: now_ns, step_ns: 1_000_000_000 },
            limit: most_rows(asked.limit, &limits),
            direction: Direction::Backward,
            interval_ns: 0,
        };
        let context: QueryContext = self.app.queries.logs_context(&call.caller.tenant);
        let source = self.app.queries.logs();
        let parsed = ParsedQuery::read(&context, &limits, &request.query).await?;
        let query = logql::query(source, &context, &limits, &call.caller.tags, (&parsed, &request));
        let result = context.in_time(query).await??;
        let QueryResult::Streams(mut rows) = result else {
            return Err(Failure::invalid("only log selector is supported"));
        };
        rows.reverse();
        let seen = rows.iter().map(identity).collect();
        self.send(rows).await?;
        let warnings = context.warnings();
        if lateness.is_news(!warnings.is_empty(), self.app.env.monotonic()) {
            self.send_warnings(&warnings).await?;
        }
        Ok(seen)
    }

    /// Sends new rows until the client leaves, its credential is revoked, or the server stops.
    async fn live(
        &mut self,
        mut live: Box<dyn Follow>,
        query: &Arc<LineQuery>,
        asked: &Asked,
        (mut sent, mut lateness): (Seen, Lateness),
    ) -> Result<End, Failure> {
        let env = self.app.env.clone();
        let stop = self.app.stopping.clone();
        let mut held = HeldBack { delay: asked.delay, frames: VecDeque::new(), rows: 0, dropped: 0 };
        let mut next_ping = env.monotonic() + PING_EVERY;
        loop {
            let now = env.monotonic();
            while let Some(rows) = held.due(now) {
                self.send(rows).await?;
            }
            self.report_dropped(std::mem::take(&mut held.dropped)).await?;
            if now >= next_ping {
                next_ping = now + PING_EVERY;
                if self.standing.as_ref().is_some_and(|standing| !standing.holds()) {
                    return Ok(End::Revoked);
                }
                self.deliver(Message::Ping(bytes::Bytes::new())).await?;
                let warnings = live.keep_up();
                if lateness.is_news(!warnings.is_empty(), now) {
                    self.send_warnings(&warnings).await?;
                }
            }
            let wake = held.next_due().map_or(next_ping, |due| due.min(next_ping));
            tokio::select! {
                () = stop.triggered() => return Ok(End::Stopping),
                () = env.sleep(wake.saturating_sub(env.monotonic())) => {}
                message = self.socket.recv() => goes_on(message)?,
                followed = live.next() => match followed {
                    None => return Ok(End::Stopping),
                    Some(Followed::Dropped(rows)) => held.dropped += rows,
                    Some(Followed::Page(page)) => {
                        let mut rows = self.passing(query, page, asked.start_ns).await?;
                        if !sent.is_empty() {
                            rows.retain(|row| !sent.remove(&identity(row)));
                        }
                        held.hold(rows, env.monotonic());
                    }
                },
            }
        }
    }

    /// The rows of a page that pass the query and are not before the start. Each page is a query of its
    /// own in its tenant's turn, within the limits of queries, and is cancelled when the client leaves.
    async fn passing(
        &mut self,
        query: &Arc<LineQuery>,
        page: Arc<LogPage>,
        start_ns: i64,
    ) -> Result<Vec<LogRow>, Failure> {
        let query = Arc::clone(query);
        let job = move || {
            let mut rows = Vec::new();
            query.process(&page, &mut rows);
            rows.retain(|row| row.timestamp >= start_ns);
            Ok(rows)
        };
        let context = self.app.queries.logs_context(&self.tenant);
        while_there(context.compute(job), &mut self.socket).await
    }

    async fn send(&mut self, rows: Vec<LogRow>) -> Result<(), Failure> {
        let (shape, encoding) = (self.shape, self.encoding);
        let job = move || {
            let (mut frames, mut rows) = (Vec::new(), rows.as_slice());
            while !rows.is_empty() {
                let (now, later) = rows.split_at(rows_of_frame(rows));
                frames.push(match shape {
                    Shape::Current => frame(now, 0, 0, encoding),
                    Shape::Legacy => legacy_frame(now, 0, 0),
                });
                rows = later;
            }
            frames
        };
        for frame in self.app.env.run_cpu(Lane::Query, job).await {
            self.deliver_text(frame).await?;
        }
        Ok(())
    }

    /// Reports dropped rows. Clients count the entries, so each row is listed, in several frames if
    /// needed.
    async fn report_dropped(&mut self, mut left: u64) -> Result<(), Failure> {
        while left > 0 {
            let listed = left.min(DROPPED_LISTED_MAX);
            let now_ns = self.app.env.now_ns();
            let frame = match self.shape {
                Shape::Current => frame(&[], listed, now_ns, self.encoding),
                Shape::Legacy => legacy_frame(&[], listed, now_ns),
            };
            self.deliver_text(frame).await?;
            left -= listed;
        }
        Ok(())
    }

    /// Sends warnings. Frames before version 1 have no place for them.
    async fn send_warnings(&mut self, warnings: &[String]) -> Result<(), Failure> {
        match self.shape {
            Shape::Current => self.deliver_text(frame_of_warnings(warnings)).await,
            Shape::Legacy => Ok(()),
        }
    }

    async fn deliver_text(&mut self, frame: bytes::Bytes) -> Result<(), Failure> {
        self.deliver(Message::Text(frame.try_into().map_err(|_| gone())?)).await
    }

    async fn deliver(&mut self, message: Message) -> Result<(), Failure> {
        let env = self.app.clone().env.clone();
        match env.timeout(SEND_PATIENCE, self.socket.send(message)).await {
            Some(Ok(())) => Ok(()),
            _ => {
                self.has_left = true;
                Err(gone())
            }
        }
    }
}

/// Runs work for a client, and cancels it when the client leaves.
async fn while_there<T, E>(
    work: impl Future<Output = Result<T, sandur_query::Error>>,
    messages: &mut (impl Stream<Item = Result<Message, E>> + Unpin),
) -> Result<T, Failure> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            outcome = work.as_mut() => return Ok(outcome?),
            message = messages.next() => goes_on(message)?,
        }
    }
}

/// Fails if the message ends the connection or is not allowed.
fn goes_on<E>(message: Option<Result<Message, E>>) -> Result<(), Failure> {
    match message {
        None | Some(Ok(Message::Close(_))) => Err(gone()),
        Some(Err(_)) => {
            let text =
                format!("a follower's message is malformed or has more than {MESSAGE_BYTES_MAX} bytes");
            Err(Failure::invalid(text).with_status(StatusCode::PAYLOAD_TOO_LARGE))
        }
        Some(Ok(_)) => Ok(()),
    }
}

/// The number of rows of the next frame. Frames are small because a slow client has a fixed time for
/// each.
fn rows_of_frame(rows: &[LogRow]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&LogRow| {
        bytes += row.line.len();
        bytes <= FRAME_BYTES_MAX
    };
    rows.iter().take(FRAME_ROWS_MAX).take_while(fits).count().max(rows.len().min(1))
}

fn gone() -> Failure {
    sandur_query::Error::Cancelled.into()
}

/// Dropped rows that one frame lists.
const DROPPED_LISTED_MAX: u64 = FRAME_ROWS_MAX as u64;

fn frame(rows: &[LogRow], dropped: u64, now_ns: i64, encoding: Encoding) -> bytes::Bytes {
    let mut out = b"{\"streams\":".to_vec();
    streams(&mut out, rows, encoding);
    if dropped > 0 {
        out.extend_from_slice(b",\"dropped_entries\":[");
        for n in 0..dropped {
            let comma = if n == 0 { "" } else { "," };
            json::push(&mut out, format_args!("{comma}{{\"labels\":\"{{}}\",\"timestamp\":\"{now_ns}\"}}"));
        }
        out.push(b']');
    }
    if encoding == Encoding::Categorized {
        out.extend_from_slice(b",\"encodingFlags\":[\"categorize-labels\"]");
    }
    out.extend_from_slice(b"}");
    out.into()
}

fn frame_of_warnings(warnings: &[String]) -> bytes::Bytes {
    serde_json::json!({ "streams": [], "warnings": warnings }).to_string().into()
}

/// A frame in the format before version 1, in which an absent list is null.
fn legacy_frame(rows: &[LogRow], dropped: u64, now_ns: i64) -> bytes::Bytes {
    let mut out = b"{\"streams\":[".to_vec();
    legacy_streams(&mut out, rows);
    out.extend_from_slice(b"],\"dropped_entries\":");
    if dropped == 0 {
        out.extend_from_slice(b"null}");
        return out.into();
    }
    out.push(b'[');
    let now = jiff::Timestamp::from_nanosecond(i128::from(now_ns)).unwrap_or_default();
    for n in 0..dropped {
        let comma = if n == 0 { "" } else { "," };
        json::push(&mut out, format_args!("{comma}{{\"Timestamp\":\"{now}\",\"Labels\":\"{{}}\"}}"));
    }
    out.extend_from_slice(b"]}");
    out.into()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// The work for a client must end when the client leaves.
    #[tokio::test]
    async fn work_for_a_follower_is_dropped_when_the_follower_leaves() {
        let ping = || Ok(Message::Ping(bytes::Bytes::new()));
        for end in [None, Some(Err(())), Some(Ok(Message::Close(None)))] {
            let waited_for = Arc::new(());
            let held = Arc::clone(&waited_for);
            let work = async move {
                std::future::pending::<()>().await;
                drop(held);
                Ok(())
            };
            let mut messages = stream::iter([ping(), ping()].into_iter().chain(end));
            assert!(while_there(work, &mut messages).await.is_err());
            assert_eq!(Arc::strong_count(&waited_for), 1, "the work is cancelled");
        }
        let mut silent = stream::pending::<Result<Message, ()>>();
        assert!(while_there(async { Ok(7) }, &mut silent).await.is_ok_and(|seven| seven == 7));
    }

    #[test]
    fn frames_have_lokis_shape() {
        let text = |f: bytes::Bytes| String::from_utf8(f.to_vec()).unwrap();
        assert_eq!(text(frame(&[], 0, 7, Encoding::Merged)), r#"{"streams":[]}"#);
        assert_eq!(
            text(frame(&[], 2, 7, Encoding::Categorized)),
            concat!(
                r#"{"streams":[],"dropped_entries":[{"labels":"{}","timestamp":"7"},"#,
                r#"{"labels":"{}","timestamp":"7"}],"encodingFlags":["categorize-labels"]}"#
            )
        );
        assert_eq!(text(legacy_frame(&[], 0, 7)), r#"{"streams":[],"dropped_entries":null}"#);
        assert_eq!(
            text(legacy_frame(&[], 1, 7_000_000_000)),
            r#"{"streams":[],"dropped_entries":[{"Timestamp":"1970-01-01T00:00:07Z","Labels":"{}"}]}"#
        );
        let limits = |most| Limits { max_entries_limit_per_query: most, ..Limits::default() };
        let most = |most| most_rows(100, &limits(most));
        assert_eq!([most(0), most(7), most(200), most(u64::MAX)], [100, 7, 100, 100]);
        assert_eq!(close_reason(&"ä".repeat(100)).len(), 122);
    }

    #[test]
    fn late_rows_are_reported_at_first_each_ten_seconds_and_at_last() {
        let (mut lateness, second) = (Lateness::default(), Duration::from_secs);
        let mut sent = Vec::new();
        for now in 0..40 {
            if lateness.is_news((5..28).contains(&now), second(now)) {
                sent.push(now);
            }
        }
        assert_eq!(sent, [5, 15, 25, 28]);
        let frame = frame_of_warnings(&["rows of \"a\" may be missing".to_owned()]);
        assert_eq!(frame, r#"{"streams":[],"warnings":["rows of \"a\" may be missing"]}"#);
        assert_eq!(frame_of_warnings(&[]), r#"{"streams":[],"warnings":[]}"#);
    }

    #[test]
    fn frames_are_small_and_never_empty() {
        let row = |length| LogRow {
            timestamp: 1,
            line: vec![b'x'; length].into(),
            stream: Default::default(),
            metadata: Default::default(),
            parsed: Default::default(),
        };
        let rows = |count, length| vec![row(length); count];
        assert_eq!(rows_of_frame(&[]), 0);
        assert_eq!(rows_of_frame(&rows(3, FRAME_BYTES_MAX + 1)), 1);
        assert_eq!(rows_of_frame(&rows(10, FRAME_BYTES_MAX / 4)), 4);
        assert_eq!(rows_of_frame(&rows(FRAME_ROWS_MAX + 1, 1)), FRAME_ROWS_MAX);
    }
}

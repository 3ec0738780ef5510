//! The log of the process on stderr: text for users, logfmt or JSON for machines; and, if enabled, the
//! same events as lines in this server's own store ([`self_logs`]). Logging never waits for a reader of
//! stderr ([`stderr`]).

pub mod line;
pub mod self_logs;
pub mod stderr;

use std::fmt;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use line::{LINES_TARGET, Moment, STORED_LINES_TARGET, logfmt, message};
use sandur_runtime::Env;
use self_logs::SelfLogs;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// Log output.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// `text`, `logfmt` or `json`.
    pub format: String,
    /// Minimum severity, or a filter such as `info,sandur_engine=debug`.
    pub level: String,
}

/// The current filter of stderr. The subscriber of a process is global, and so is its filter.
static FILTER: Mutex<Filter> = Mutex::new(Filter { text: String::new(), reload: None });

struct Filter {
    text: String,
    /// Replaces the filter of the subscriber; `None` before logging is started.
    reload: Option<Reload>,
}

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send>;

/// The levels that [`set_level`] accepts.
const LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// The minimum severity that is logged, or the configured filter.
pub fn level() -> String {
    FILTER.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
}

/// Logs from this severity on; the error is for the user.
pub fn set_level(level: &str) -> Result<(), String> {
    if !LEVELS.contains(&level) {
        return Err(format!("unrecognized log level {level:?}"));
    }
    let mut filter = FILTER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reload) = &filter.reload {
        reload(EnvFilter::new(level))?;
    }
    level.clone_into(&mut filter.text);
    Ok(())
}

/// Stores how to change the filter of the new subscriber.
fn remember<S: 'static>(level: &str, handle: Handle<EnvFilter, S>) {
    let reload: Reload = Box::new(move |filter| handle.reload(filter).map_err(|e| e.to_string()));
    let mut filter = FILTER.lock().unwrap_or_else(PoisonError::into_inner);
    *filter = Filter { text: level.to_owned(), reload: Some(reload) };
}

/// Whether every line on stderr is a JSON object, and whether logging is started.
static JSON: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);

/// Determines the format before the configuration can be read, so that its errors use it too.
pub fn choose_format(arguments: &[String], variable: Option<String>) {
    let mut given = variable;
    for (n, argument) in arguments.iter().enumerate() {
        match argument.strip_prefix("--log-format") {
            Some("") => given = arguments.get(n + 1).cloned(),
            Some(value) => given = value.strip_prefix('=').map(str::to_owned).or(given),
            None => {}
        }
    }
    JSON.store(given.as_deref() == Some("json"), Ordering::Relaxed);
}

/// Whether every line on stderr is a JSON object.
pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints on stderr why the process ends: as plain text, or as an event if the format is JSON.
pub fn say_failure(text: &str) {
    if !is_json() {
        eprintln!("{text}");
    } else if STARTED.load(Ordering::Relaxed) {
        tracing::error!("{text}");
    } else {
        eprintln!("{}", serde_json::json!({"level": "ERROR", "message": text}));
    }
}

/// A panic is logged like other events: with its location, and in the format of the log.
fn log_panic(info: &PanicHookInfo<'_>) {
    let panic = info.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(panic, thread, place, "a thread panicked");
    // The process may be about to end.
    stderr::finish();
}

/// Starts logging; the error describes the problem of the settings.
pub fn start(log: &Log, env: Env, self_logs: Option<&SelfLogs>) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.level).map_err(|e| {
        format!("log.level '{}': {e}; write it like info or warn,sandur_engine=debug", log.level)
    })?;
    let output = tracing_subscriber::fmt::layer().with_writer(|| stderr::Event);
    let output = match log.format.as_str() {
        "json" => output.json().flatten_event(true).with_timer(Clock(env)).boxed(),
        "logfmt" => output.event_format(Logfmt(env)).boxed(),
        _ => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            output.with_ansi(colours).event_format(Text::new(env)).boxed()
        }
    };
    // The filter applies only to stderr: shipped lines have their own level.
    let own = self_logs.map(SelfLogs::layer);
    // A second start in one process (tests) keeps the first subscriber.
    let (filter, handle) = reload::Layer::new(filter);
    let output = output.with_filter(filter.and(not_only_stored()));
    let started = tracing_subscriber::registry().with(output).with(own).try_init();
    if started.is_ok() {
        stderr::start().map_err(|error| format!("cannot start the thread that writes the log: {error}"))?;
        remember(&log.level, handle);
        JSON.store(log.format == "json", Ordering::Relaxed);
        STARTED.store(true, Ordering::Relaxed);
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// Excludes lines that only the server's own log in its store receives.
fn not_only_stored() -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let wanted = |meta: &Metadata<'_>| !meta.target().starts_with(STORED_LINES_TARGET);
    // With a hint, the levels that the other filter disables stay disabled for the whole process.
    filter_fn(wanted).with_max_level_hint(LevelFilter::TRACE)
}

/// RFC 3339 in UTC with milliseconds, with the clock of the process.
struct Clock(Env);

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Moment(self.0.now_ns()))
    }
}

/// Text for users. Lines of queries are long and frequent, so they are written directly if they contain
/// nothing that could move a terminal's cursor; other events are written character by character.
struct Text {
    env: Env,
    usual: Format<Full, Clock>,
}

impl Text {
    fn new(env: Env) -> Self {
        Self { usual: tracing_subscriber::fmt::format().with_timer(Clock(env.clone())), env }
    }
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        if meta.target().starts_with(LINES_TARGET) && !writer.has_ansi_escapes() {
            let line = message(event);
            if line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                let (now, level) = (Moment(self.env.now_ns()), meta.level());
                return writeln!(writer, "{now} {level:>5} {}: {line}", meta.target());
            }
        }
        self.usual.format_event(context, writer, event)
    }
}

/// `ts=.. level=.. caller=.. msg=.. key=value ..`, as Loki writes.
struct Logfmt(Env);

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writeln!(writer, "{}", logfmt(event, self.0.now_ns()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            self.0.lock().unwrap().push(logfmt(event, 1_795_240_900_123_456_789));
        }
    }

    #[test]
    fn events_become_lines_and_lines_are_unchanged() {
        let seen = Seen::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(seen.clone()), || {
            tracing::warn!(target: "sandur_engine::flush", path = "a b", n = 5, "it works");
            tracing::info!(target: "sandur::query::querier", "caller=metrics.go query=\"{{a=\\\"b\\\"}}\"");
        });
        let lines = seen.0.lock().unwrap();
        let start = "ts=2026-11-21T06:01:40.123Z";
        let warned = r#"level=warn caller=sandur_engine::flush msg="it works" path="a b" n=5"#;
        assert_eq!(lines[0], format!("{start} {warned}"));
        assert_eq!(lines[1], format!(r#"{start} level=info caller=metrics.go query="{{a=\"b\"}}""#));
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_queries_in_text_look_like_other_events_and_move_no_cursor() {
        let written = Written::default();
        let writer = written.clone();
        let text = Text::new(Env::system(1));
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).event_format(text);
        let layer = layer.with_writer(move || writer.clone());
        let lines = ["caller=metrics.go query=\"a b\"", "caller=metrics.go user_agent=\u{1b}[2J\u{9b}"];
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for line in lines {
                tracing::info!(target: "sandur::query::querier", "{line}");
                tracing::info!(target: "sandur::other::querier", "{line}");
            }
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| &line[line.find("  INFO").unwrap()..]).collect();
        assert_eq!(lines[0], "  INFO sandur::query::querier: caller=metrics.go query=\"a b\"");
        assert!(lines[2].ends_with("user_agent=\\x1b[2J\\u{9b}"), "{text}");
        let others = |line: &str| line.replace("::other::", "::query::");
        assert_eq!([lines[0], lines[2]].map(str::to_owned), [lines[1], lines[3]].map(others));
    }

    #[test]
    fn lines_for_the_store_only_are_excluded_and_lower_levels_stay_disabled() {
        let seen = Seen::default();
        let (filter, _handle) = reload::Layer::new(EnvFilter::new("info"));
        let subscriber =
            tracing_subscriber::registry().with(seen.clone().with_filter(filter.and(not_only_stored())));
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::INFO));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "sandur::query_stored::querier", "stored");
            assert!(!tracing::enabled!(target: "sandur::query_stored::querier", tracing::Level::INFO));
            tracing::debug!(target: "sandur::query::querier", "too fine");
            tracing::info!(target: "sandur::query::querier", "both");
        });
        let lines = seen.0.lock().unwrap();
        assert!(lines.len() == 1 && lines[0].ends_with(" both"), "{lines:?}");
    }

    #[test]
    fn an_invalid_level_is_explained() {
        let log = Log { format: "text".into(), level: "a=b=c".into() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let error = runtime.block_on(async { start(&log, Env::system(1), None) }).unwrap_err();
        assert!(error.contains("write it like info"), "{error}");
    }
}

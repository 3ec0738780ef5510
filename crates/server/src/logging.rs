//! The log of the process on stderr: text for people, logfmt or JSON for machines.

use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use sandur_base::Env;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;

use crate::config::Log;

/// What is logged now. The subscriber of a process is global, and so is its filter.
static FILTER: Mutex<Filter> = Mutex::new(Filter { text: String::new(), reload: None });

struct Filter {
    text: String,
    /// Puts another filter into the subscriber; `None` before logging was started.
    reload: Option<Reload>,
}

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send>;

/// What [`set_level`] takes.
const LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// The least severity that is logged, or the filter that was configured.
pub fn level() -> String {
    FILTER.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
}

/// Logs from this severity on; the error says what is wrong.
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

/// Remembers how to change the filter of the subscriber that was just made.
fn remember<S: 'static>(level: &str, handle: Handle<EnvFilter, S>) {
    let reload: Reload = Box::new(move |filter| handle.reload(filter).map_err(|e| e.to_string()));
    let mut filter = FILTER.lock().unwrap_or_else(PoisonError::into_inner);
    *filter = Filter { text: level.to_owned(), reload: Some(reload) };
}

/// Starts logging; the error says what is wrong with the settings.
pub fn start(log: &Log, env: Env) -> Result<(), String> {
    let filter = EnvFilter::try_new(&log.level).map_err(|e| {
        format!("log.level '{}': {e}; write it like info or warn,sandur_engine=debug", log.level)
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first.
    match log.format.as_str() {
        "json" => {
            let builder = builder.json().flatten_event(true).with_timer(Clock(env)).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init().map(|()| remember(&log.level, handle));
        }
        "logfmt" => {
            let builder = builder.event_format(Logfmt(env)).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init().map(|()| remember(&log.level, handle));
        }
        _ => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let builder = builder.with_ansi(colours).with_timer(Clock(env)).with_filter_reloading();
            let handle = builder.reload_handle();
            let _ = builder.try_init().map(|()| remember(&log.level, handle));
        }
    }
    Ok(())
}

/// RFC 3339 in UTC with milliseconds, by the clock of the process.
struct Clock(Env);

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0.now_ns())) {
            Ok(now) => write!(writer, "{now:.3}"),
            Err(_) => writer.write_str("-"),
        }
    }
}

/// `ts=.. level=.. caller=.. msg=.. key=value ..`, as Loki and its kin write.
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
        let meta = event.metadata();
        writer.write_str("ts=")?;
        Clock(self.0.clone()).format_time(&mut writer)?;
        let level = meta.level().as_str().to_ascii_lowercase();
        write!(writer, " level={level} caller={}", meta.target())?;
        let mut pairs = Pairs { text: String::new() };
        event.record(&mut pairs);
        writeln!(writer, "{}", pairs.text)
    }
}

struct Pairs {
    text: String,
}

impl Pairs {
    fn push(&mut self, name: &str, value: &str) {
        let name = if name == "message" { "msg" } else { name };
        let plain = !value.is_empty() && value.bytes().all(|b| b > b' ' && b != b'"' && b != b'=');
        // Writing to a String cannot fail.
        let _ = match plain {
            true => write!(self.text, " {name}={value}"),
            false => write!(self.text, " {name}={value:?}"),
        };
    }
}

impl Visit for Pairs {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field.name(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_when_they_need_it() {
        let mut pairs = Pairs { text: String::new() };
        pairs.push("message", "it works");
        pairs.push("query", r#"{a="b"}"#);
        pairs.push("n", "5");
        pairs.push("empty", "");
        assert_eq!(pairs.text, r#" msg="it works" query="{a=\"b\"}" n=5 empty="""#);
    }

    #[test]
    fn a_bad_level_is_explained() {
        let log = Log { format: "text".into(), level: "a=b=c".into() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let error = runtime.block_on(async { start(&log, Env::system(1)) }).unwrap_err();
        assert!(error.contains("write it like info"), "{error}");
    }
}

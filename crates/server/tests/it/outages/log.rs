//! The log of the server in a test, with times.
//!
//! One subscriber serves the whole process and passes lines to the test of their thread: temporary
//! subscribers would change what other threads log.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use sandur_runtime::Env;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

thread_local! {
    static OF_THREAD: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// A line without its fields: the same for every such event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub at: Duration,
    pub level: Level,
    pub message: String,
}

/// The lines of everything that runs on a thread.
#[derive(Clone)]
pub struct Log {
    env: Env,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Log {
    /// Collects the log of this thread from now on.
    pub fn collect(env: &Env) -> Self {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| {
            let subscriber = tracing_subscriber::registry().with(ByThread.with_filter(LevelFilter::INFO));
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
        let log = Self { env: env.clone(), lines: Arc::default() };
        OF_THREAD.set(Some(log.clone()));
        log
    }

    /// The lines so far, of level info and above.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Passes lines to the log of their thread.
struct ByThread;

impl<S: Subscriber> Layer<S> for ByThread {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Lines of queries are not about the store.
        if event.metadata().target().starts_with("sandur::query") {
            return;
        }
        OF_THREAD.with_borrow(|log| {
            let Some(Log { env, lines }) = log else { return };
            let mut message = Message(String::new());
            event.record(&mut message);
            let (at, level) = (env.monotonic(), *event.metadata().level());
            lines.lock().unwrap().push(Line { at, level, message: message.0 });
        });
    }
}

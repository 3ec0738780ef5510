//! Graphite requests: the parameters of `/render` and `/metrics/find`, one on each line, are parsed and
//! answered in any format, on a thread with a small stack.

use std::sync::mpsc::channel;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_graphite::{
    Column, Fetched, FindRequest, Found, Pattern, RenderRequest, Selector, Source, TagExpression, Window,
    Zone, find, render,
};
use sandur_query::{Error, QueryContext};

use super::whole::{context, on_a_small_stack};

/// The current time of every request, in seconds: 2026-01-01.
const NOW: i64 = 1_767_225_600;
/// The existing series, and the interval of their values in seconds.
const SERIES: [(&str, i64); 4] = [("a.b.c", 60), ("a.b.d", 60), ("a.e", 10), ("m;x=1", 60)];
/// Largest number of values of a series, that of a store that keeps a week.
const VALUES_MAX: i64 = 10_080;
/// Time after which a request is cancelled, as a server does at the deadline.
const PATIENCE: Duration = Duration::from_millis(500);

/// The input is the parameters of `/render`.
pub fn render_target(input: &[u8]) {
    let Some(pairs) = parameters(input) else { return };
    evaluate(async |context| {
        // An error is a valid outcome.
        let Ok(request) = RenderRequest::read(&pairs, NOW, &Zone::utc()) else { return };
        if let Ok(answer) = render(&Made, context, &request).await {
            assert!(!answer.content_type.is_empty());
        }
    });
}

/// The input is the parameters of `/metrics/find`. Every path that a pattern finds must match it.
pub fn find_target(input: &[u8]) {
    let Some(pairs) = parameters(input) else { return };
    evaluate(async |context| {
        let Ok(request) = FindRequest::read(&pairs, NOW, &Zone::utc()) else { return };
        _ = find(&Made, context, &request).await;
        let Ok(pattern) = Pattern::parse(&request.query) else { return };
        for (name, _) in SERIES {
            let shown = pattern.shown((*name).to_owned());
            assert_eq!(shown.split('.').count(), name.split('.').count(), "{}", pattern.text());
        }
    });
}

/// Reads lines of the form `name=value`.
fn parameters(input: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(input).ok()?;
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(text.lines().filter_map(pair).collect())
}

fn evaluate(request: impl AsyncFnOnce(&QueryContext) + Send) {
    let (context, (ended, end)) = (context(), channel::<()>());
    let work = || {
        let _ended = ended;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        runtime.block_on(request(&context));
        assert_eq!(context.budget().used(), 0, "memory is released");
    };
    on_a_small_stack(work, || {
        if end.recv_timeout(PATIENCE).is_err() {
            context.cancel();
        }
    });
}

/// The series of [`SERIES`], each with values at every step of the requested window.
struct Made;

impl Source for Made {
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
        async move {
            let fits = |name: &str| match selector {
                Selector::Path(pattern) => pattern.matches(name),
                Selector::Name(asked) => asked == name,
                Selector::Tags(_) => name.contains(';'),
            };
            let mut all = Vec::new();
            for (name, step) in SERIES.into_iter().filter(|(name, _)| fits(name)) {
                let until = window.until.min(NOW);
                let from = window.from.max(until.saturating_sub(VALUES_MAX * step));
                let start = from.div_euclid(step) * step + step;
                let count = (until.div_euclid(step) * step + step).saturating_sub(start) / step;
                let count = usize::try_from(count).unwrap_or(0);
                let value = |n: usize| (!n.is_multiple_of(7)).then_some(n as f64 * 1.5 - 20.0);
                let values = Column::in_budget(context.budget(), (0..count).map(value))?;
                let end = start + count as i64 * step;
                all.push(Fetched { name: name.to_owned(), start, end, step, values });
            }
            Ok(all)
        }
        .boxed()
    }

    fn nodes<'a>(
        &'a self,
        _: &'a QueryContext,
        pattern: &'a Pattern,
        _: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        let nodes = [("a", false), ("a.b", false), ("a.b.c", true), ("a.b.d", true), ("a.e", true)];
        let fitting = nodes.into_iter().filter(|(path, _)| pattern.matches(path));
        let found = fitting.map(|(path, is_leaf)| Found { path: path.to_owned(), is_leaf }).collect();
        async { Ok(found) }.boxed()
    }

    fn tagged<'a>(
        &'a self,
        _: &'a QueryContext,
        _: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        async { Ok(vec!["m;x=1".to_owned()]) }.boxed()
    }
}

//! `sandur query`: queries a server and prints the answer, page by page.

use std::io::BufWriter;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::parse_duration;
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::absent::{self, Found};
use super::caret;
use super::client::{self, Client};
use super::graphite_query;
use super::language;
use super::metrics_query;
use super::moment::{self, Window};
use super::outcome::{Wanted, warn, written};
use super::paging::{Ask, Paging};
use super::printer::{Output, Printer, output_argument_with};
use super::results::{self, Answer, Data};

/// Default number of lines of a page.
const BATCH_DEFAULT: &str = "1000";

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("QUERY").required(true);
    let query = query.help(
        "LogQL or PromQL, like '{app=\"api\"} |= \"timeout\"' or 'sum by (app) \
             (rate({env=\"prod\"}[5m]))' or 'rate(http_requests_total[5m])'",
    );
    let limit = Arg::new("limit").long("limit").value_name("N").default_value("100");
    let limit = limit.value_parser(clap::value_parser!(u64)).help(
        "Maximum number of lines of a log query; \
        0 for all",
    );
    let batch = Arg::new("batch").long("batch").value_name("N").default_value(BATCH_DEFAULT);
    let batch = batch.value_parser(clap::value_parser!(u64).range(1..));
    let batch = batch.help("Lines per request to the server; fewer if the server's limit is lower");
    let forward = Arg::new("forward").long("forward").action(ArgAction::SetTrue).help(
        "Print the oldest \
        lines first",
    );
    let step = Arg::new("step")
        .long("step")
        .value_name("DURATION")
        .help("Distance between points of a metric query");
    let instant = Arg::new("instant").long("instant").action(ArgAction::SetTrue);
    let instant = instant.help(
        "Evaluate a metric query at one instant instead of a range; --to TIME is that \
        instant, by default now",
    );
    let promql = Arg::new("promql").long("promql").action(ArgAction::SetTrue).conflicts_with("logql");
    let promql = promql.help(
        "The query is PromQL, over metrics; the default if it is valid PromQL and \
        invalid LogQL",
    );
    let logql = Arg::new("logql").long("logql").action(ArgAction::SetTrue);
    let logql = logql.help("The query is LogQL, over logs");
    let command = Command::new("query").about("Query logs, metrics of logs, and metrics").arg(query);
    let graphite = Arg::new("graphite").long("graphite").action(ArgAction::SetTrue);
    let graphite = graphite.conflicts_with_all(["promql", "logql", "instant", "step"]);
    let graphite = graphite.help("The query is a Graphite target, like 'scale(servers.*.load, 100)'");
    let command = command.args([promql, logql, graphite]);
    let output = output_argument_with(&["table", "openmetrics"]);
    let around = Arg::new("around").long("around").value_name("TIME");
    let around = around.conflicts_with_all(["since", "from", "to", "instant"]).help(
        "The range around this instant, such as the time of an error: from --window before it to --window \
         after it",
    );
    let half = Arg::new("window").long("window").value_name("DURATION").default_value("30s");
    let half = half.requires("around").help("The time before and after --around");
    let command = moment::arguments(command).args([around, half]);
    let command = command.args([limit, batch, forward, step, instant, output]);
    client::arguments(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let window = window(matches, env.now_ns())?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    if matches.get_flag("graphite") {
        return graphite_query::run(&client, &query, &window, matches).await;
    }
    if language::is_promql(matches, &query) {
        return metrics_query::run((&env, &client), &query, &window, matches).await;
    }
    if let Some(form @ ("table" | "openmetrics")) = matches.get_one::<String>("output").map(String::as_str) {
        return Err(Failed::usage(format!("--output {form} is only for PromQL: add --promql, or use csv")));
    }
    let output = Output::from_arguments(matches);
    let mut printer =
        Printer::new(BufWriter::new(std::io::stdout().lock()), output, window.zone.clone(), &query);
    let asking = Asking { env, client, query, matches };
    if matches.get_flag("instant") {
        let answer = asking.instant(&window).await?;
        return asking.show(&mut printer, answer, &window).await;
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
    let (limit, forward) = (number("limit"), matches.get_flag("forward"));
    let mut paging = Paging::new(window.clone(), forward, limit, number("batch"));
    let mut shown = 0;
    while !paging.is_done() {
        let ask = paging.ask()?;
        let answer = match asking.page(ask).await {
            Ok(answer) => answer,
            Err(refusal) if paging.learn_limit(ask, &refusal.text) => continue,
            Err(refusal) => return Err(caret::explain(&asking.query, refusal)),
        };
        let answer = results::read(&answer)?;
        let Data::Streams(streams) = answer.data else {
            return asking.show(&mut printer, answer, &window).await;
        };
        warn(&answer.warnings);
        let rows = paging.take(ask, streams);
        shown += rows.len();
        if let Err(error) = printer.page(&rows) {
            return written(Err(error));
        }
    }
    if shown == 0 {
        asking.found_nothing("lines", &window).await;
    } else if paging.reached_limit() {
        eprintln!("reached the limit of {limit}; --limit N shows more, --limit 0 all");
    }
    Ok(ExitCode::SUCCESS)
}

/// The range that the arguments name.
fn window(matches: &ArgMatches, now_ns: i64) -> Result<Window, Failed> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let Some(around) = text("around") else { return moment::window(matches, now_ns) };
    let zone = moment::zone(matches);
    let at = moment::instant(around, now_ns, &zone)?;
    let half = parse_duration(text("window").unwrap_or("30s"));
    let half = half.map_err(|error| Failed::usage(format!("--window: {error}")))?;
    let half = i64::try_from(half.as_nanos()).unwrap_or(i64::MAX);
    // The end of a range is exclusive.
    let end = at.saturating_add(half).saturating_add(1);
    Ok(Window { start: at.saturating_sub(half), end, zone })
}

/// The query and the client that runs it.
struct Asking<'a> {
    env: Env,
    client: Client,
    query: String,
    matches: &'a ArgMatches,
}

impl Asking<'_> {
    async fn page(&self, ask: Ask) -> Result<Vec<u8>, client::Refusal> {
        let direction = if self.matches.get_flag("forward") { "forward" } else { "backward" };
        let mut pairs = vec![
            ("query", self.query.clone()),
            ("limit", ask.limit.to_string()),
            ("start", ask.start.to_string()),
            ("end", ask.end.to_string()),
            ("direction", direction.to_owned()),
        ];
        if let Some(step) = self.matches.get_one::<String>("step") {
            pairs.push(("step", step.clone()));
        }
        self.client.get("/loki/api/v1/query_range", &pairs).await
    }

    async fn instant(&self, window: &Window) -> Result<Answer, Failed> {
        let pairs = [("query", self.query.clone()), ("time", window.end.to_string())];
        let body = self.client.get("/loki/api/v1/query", &pairs).await;
        results::read(&body.map_err(|refusal| caret::explain(&self.query, refusal))?)
    }

    /// Prints the answer of a metric query.
    async fn show<W: std::io::Write>(
        &self,
        printer: &mut Printer<W>,
        answer: Answer,
        window: &Window,
    ) -> Result<ExitCode, Failed> {
        warn(&answer.warnings);
        if answer.data.is_empty() {
            self.found_nothing("series", window).await;
        }
        let printed = match answer.data {
            Data::Streams(streams) => printer.page(&super::paging::rows(streams)),
            data => printer.metrics(&data, window),
        };
        written(printed)
    }

    async fn found_nothing(&self, what: &str, window: &Window) {
        let is_instant = self.matches.get_flag("instant");
        let found = Found { query: &self.query, wanted: Wanted::Logs, window, is_instant };
        absent::report(what, (&self.env, &self.client), found).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_around_an_instant_has_the_same_time_before_and_after_it() {
        let read = |arguments: &[&str]| {
            let all = [&["query", "--timezone", "UTC", "{a=\"b\"}"], arguments].concat();
            let window = window(&command().try_get_matches_from(all).ok()?, 0).ok()?;
            Some((window.zone.show(window.start), window.zone.show(window.end)))
        };
        let shown = |from: &str, to: &str| Some((from.to_owned(), to.to_owned()));
        assert_eq!(
            read(&["--around", "2026-11-21 06:00"]),
            shown("2026-11-21T05:59:30.000Z", "2026-11-21T06:00:30.000Z")
        );
        assert_eq!(
            read(&["--around", "2026-11-21 06:00", "--window", "5m"]),
            shown("2026-11-21T05:55:00.000Z", "2026-11-21T06:05:00.000Z")
        );
        assert_eq!(read(&["--around", "2026-11-21", "--window", "5"]), None);
        assert_eq!(read(&["--around", "2026-11-21", "--since", "1h"]), None);
        assert_eq!(read(&["--window", "5m"]), None);
        assert_eq!(read(&[]), shown("1969-12-31T23:00:00.000Z", "1970-01-01T00:00:00.000Z"));
    }
}

//! `sandur delete`: creates, lists and cancels requests to delete lines, and deletes samples. Asks for
//! confirmation before a change.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use reqwest::Method;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::Deserialize;

use super::caret;
use super::client::{self, Ask, Client};
use super::delete_metrics;
use super::labels::metrics_argument;
use super::moment::{self, Window, Zone};
use super::outcome::written;
use super::results::{self, Data};

const PATH: &str = "/loki/api/v1/delete";
/// The time for counting; a request without the number follows.
const COUNT_PATIENCE: Duration = Duration::from_secs(30);
/// The number of lines of a query that matches nothing.
const NO_LINES: &str = "0 lines";
/// The number of lines of a query that matches one.
const ONE_LINE: &str = "1 line";

/// The command.
pub fn command() -> Command {
    let yes = || Arg::new("yes").long("yes").short('y').action(ArgAction::SetTrue).help("Do not ask");
    let query = Arg::new("query").value_name("QUERY").required(true);
    let query = query.help(
        "The lines, like '{app=\"api\"} |= \"password\"', or the series, like 'up{job=\"api\"}'. A selector \
         without the name of a metric selects streams of logs unless --metrics is given",
    );
    let create = Command::new("create")
        .about("Hide lines or samples at once and remove them from the store later")
        .args([query, metrics_argument(), yes()]);
    let create = moment::arguments(create).mut_arg("since", |since| {
        since.help("Length of the range, like 15m or 7d, or its start; this or --from is required")
    });
    let list = Command::new("list")
        .about("List the requests for lines with their progress; deletes of metrics are not listed");
    let id = Arg::new("id").value_name("ID").required(true).help("The request, as `delete list` shows it");
    let force = Arg::new("force").long("force").action(ArgAction::SetTrue);
    let force = force.help("Also if some of the lines may have been removed already");
    let cancel = Command::new("cancel").about("Cancel a request, so that its lines are shown again").args([
        id,
        force,
        yes(),
    ]);
    Command::new("delete")
        .about("Delete lines and samples: create, list and cancel delete requests")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(client::arguments(create))
        .subcommand(client::arguments(moment::zone_argument(list)))
        .subcommand(client::arguments(cancel))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("create", m)) => create(env, m).await,
        Some(("list", m)) => list(m).await,
        Some(("cancel", m)) => cancel(m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}

async fn create(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    if !matches.contains_id("from") && !matches.contains_id("since") {
        return Err(Failed::usage(
            "give the start of the range: --from TIME, --since 7d, or --from 0 for \
            everything",
        ));
    }
    let client = Client::from_arguments(matches)?;
    let window = moment::window(matches, env.now_ns())?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    // Delete requests have a resolution of seconds; the range is shown as it is sent.
    let (start, end) = (window.start.div_euclid(1_000_000_000), window.end.div_euclid(1_000_000_000));
    let shown = Window { start: start * 1_000_000_000, end: end * 1_000_000_000, zone: window.zone };
    if end <= start {
        return Err(Failed::usage("the range is shorter than a second"));
    }
    let is_for_metrics = delete_metrics::is_for_metrics(matches, &query);
    let counting = async {
        match is_for_metrics {
            true => delete_metrics::count(&client, &query, &shown).await,
            false => count(&client, &query, &shown).await,
        }
    };
    let found = env.timeout(COUNT_PATIENCE, counting).await.unwrap_or(Ok(None))?;
    if !matches.get_flag("yes") {
        let (from, to) = (shown.zone.show(shown.start), shown.zone.show(shown.end));
        let where_from = client.base();
        let found = found.as_deref().unwrap_or("everything (it could not be counted)");
        let question = format!("Delete {found} of {query}\nfrom {from} to {to} at {where_from}?");
        if !confirmed(&question)? {
            return Err(Failed::new("nothing was deleted"));
        }
    }
    if is_for_metrics {
        delete_metrics::create(&client, &query, &shown, found).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let rfc3339 = |seconds: i64| Zone::utc().show_exactly(seconds * 1_000_000_000);
    let pairs = [("query", query.clone()), ("start", rfc3339(start)), ("end", rfc3339(end))];
    let asked = client.ask(Ask { method: Method::POST, path: PATH, pairs: &pairs, ..Ask::default() }).await;
    asked.map_err(|refusal| caret::explain(&query, refusal))?;
    let requests = requests(&client).await.unwrap_or_default();
    let hidden = hidden(found.as_deref());
    let mine = requests.iter().filter(|one| one.query == query);
    match mine.max_by(|a, b| a.created_at.total_cmp(&b.created_at)) {
        Some(Request { request_id: id, .. }) => {
            eprintln!("{hidden}; `sandur delete cancel {id}` cancels request {id}");
        }
        None => eprintln!("{hidden}; `sandur delete list` shows the request"),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a new request does, by the number of lines that match.
fn hidden(found: Option<&str>) -> String {
    match found {
        None => "the lines are hidden".to_owned(),
        Some(NO_LINES) => {
            "no line matches now (for metrics, add --metrics); the request also hides lines that \
                           are pushed later with times in its range"
                .to_owned()
        }
        Some(lines @ ONE_LINE) => format!("{lines} is hidden"),
        Some(lines) => format!("{lines} are hidden"),
    }
}

/// The number of lines that match now, as a text; `None` if they cannot be counted.
async fn count(client: &Client, query: &str, window: &Window) -> Result<Option<String>, Failed> {
    let seconds = (window.end - window.start) / 1_000_000_000;
    let asked = format!("sum(count_over_time({query} [{seconds}s]))");
    let pairs = [("query", asked), ("time", window.end.to_string())];
    let body = match client.get("/loki/api/v1/query", &pairs).await {
        Ok(body) => body,
        // Only an invalid query stops a delete; a limit on queries does not.
        Err(refusal) if sandur_logql::diagnose(query).is_some() => {
            return Err(caret::explain(query, refusal));
        }
        Err(refusal) if refusal.status.is_none() => return Err(refusal.into()),
        Err(_) => return Ok(None),
    };
    Ok(match results::read(&body)?.data {
        Data::Vector(series) => match series.first().map(|s| s.value.1.as_str()) {
            None => Some(NO_LINES.to_owned()),
            Some("1") => Some(ONE_LINE.to_owned()),
            Some(lines) => Some(format!("{lines} lines")),
        },
        _ => None,
    })
}

#[derive(Deserialize)]
struct Request {
    request_id: String,
    start_time: f64,
    end_time: f64,
    query: String,
    status: String,
    created_at: f64,
}

async fn requests(client: &Client) -> Result<Vec<Request>, Failed> {
    let body = client.get(PATH, &[]).await.map_err(|refusal| caret::explain_any(None, refusal))?;
    serde_json::from_slice(&body).map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))
}

async fn list(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let requests = requests(&Client::from_arguments(matches)?).await?;
    let zone = moment::zone(matches);
    if requests.is_empty() {
        eprintln!("no delete requests for lines; deletes of metrics are not listed");
    }
    let time = |seconds: f64| zone.show((seconds * 1_000.0) as i64 * 1_000_000);
    let mut out = std::io::stdout().lock();
    written(requests.iter().try_for_each(|one| {
        let (start, end, created) = (time(one.start_time), time(one.end_time), time(one.created_at));
        let query = super::escape::escaped(&one.query);
        let Request { request_id, status, .. } = one;
        writeln!(out, "{request_id}  {status:<14}  created {created}  {start} to {end}  {query}")
    }))
}

async fn cancel(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let id = matches.get_one::<String>("id").cloned().unwrap_or_default();
    let question = format!("Cancel request {id} at {}?", client.base());
    if !matches.get_flag("yes") && !confirmed(&question)? {
        return Err(Failed::new("nothing was changed"));
    }
    let mut pairs = vec![("request_id", id.clone())];
    if matches.get_flag("force") {
        pairs.push(("force", "true".to_owned()));
    }
    let asked = client.ask(Ask { method: Method::DELETE, path: PATH, pairs: &pairs, ..Ask::default() }).await;
    asked.map_err(|refusal| caret::explain_any(None, refusal))?;
    eprintln!("request {id} is cancelled: its lines are shown again, except those that were removed already");
    Ok(ExitCode::SUCCESS)
}

/// Asks on the terminal. Fails without a terminal.
fn confirmed(question: &str) -> Result<bool, Failed> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failed::usage("there is no terminal to ask for confirmation: use --yes"));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(|e| Failed::new(format!("cannot read the answer: {e}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_request_says_how_much_it_hides() {
        assert_eq!(hidden(Some("6 lines")), "6 lines are hidden");
        assert_eq!(hidden(Some("1 line")), "1 line is hidden");
        assert!(hidden(Some("0 lines")).starts_with("no line matches now (for metrics, add --metrics)"));
        assert_eq!(hidden(None), "the lines are hidden");
    }

    #[test]
    fn the_help_of_create_has_no_default_range() {
        let mut command = command();
        let create = command.find_subcommand_mut("create").unwrap();
        let help = create.render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("this or --from is required") && !help.contains("[default: 1h]"), "{help}");
    }
}

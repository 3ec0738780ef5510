//! `sandur silences`: lists, adds and ends the silences of a server.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::parse_duration;
use sandur_cli::client::{self, Ask, Client, Method, Refusal};
use sandur_cli::escape::escaped;
use sandur_cli::moment::Zone;
use sandur_cli::outcome::written;
use sandur_rules::data::ns_of;
use sandur_rules::silence::SilenceMatcher;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::{Deserialize, Serialize};
use serde_json::json;

const SILENCES: &str = "/alertmanager/api/v2/silences";
const SILENCE: &str = "/alertmanager/api/v2/silence";

/// The command.
pub fn command() -> Command {
    let value = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let filter = Arg::new("matchers").value_name("MATCHER").num_args(0..);
    let list = Command::new("list")
        .about("List silences")
        .arg(filter.help("Show only silences with matchers that fit these, such as alertname=Down"))
        .arg(Arg::new("expired").long("expired").action(ArgAction::SetTrue).help("Also those that are over"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the server's JSON"));
    let matchers = Arg::new("matchers").value_name("MATCHER").num_args(1..).required(true);
    let add = Command::new("add")
        .about("Add a silence, and print its id")
        .arg(matchers.help("NAME=VALUE, NAME!=VALUE, NAME=~REGEX or NAME!~REGEX; alerts meet all of them"))
        .arg(value("duration", "DURATION").default_value("1h").help("How long it is in force"))
        .arg(value("comment", "TEXT").required(true).help("Why"))
        .arg(value("author", "NAME").help("Who; by default the user of this machine"))
        .after_help("Example: sandur silences add alertname=Down 'zone=~eu-.*' --duration 2h --comment work");
    let ids = Arg::new("ids").value_name("ID").num_args(1..).required(true);
    let expire = Command::new("expire").about("End silences").arg(ids.help("Ids of silences"));
    Command::new("silences")
        .about("List, add and end silences: alerts that webhooks and e-mails do not tell")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(client::arguments(list))
        .subcommand(client::arguments(add))
        .subcommand(client::arguments(expire))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("list", matches)) => list(matches).await,
        Some(("add", matches)) => add(&env, matches).await,
        Some(("expire", matches)) => expire(matches).await,
        _ => Err(Failed::new("name a command: list, add or expire")),
    }
}

fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many::<String>(name).unwrap_or_default().cloned().collect()
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Silence {
    id: String,
    status: Status,
    matchers: Vec<SilenceMatcher>,
    starts_at: String,
    ends_at: String,
    created_by: String,
    comment: String,
}

#[derive(Deserialize, Serialize)]
struct Status {
    state: String,
}

async fn list(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let filters: Vec<_> = texts(matches, "matchers").into_iter().map(|text| ("filter", text)).collect();
    let body = client.get(SILENCES, &filters).await.map_err(refused)?;
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        return written(out.write_all(&body).and_then(|()| writeln!(out)));
    }
    let silences: Vec<Silence> = serde_json::from_slice(&body)
        .map_err(|error| Failed::new(format!("the server's answer cannot be read: {error}")))?;
    let is_shown = |silence: &&Silence| matches.get_flag("expired") || silence.status.state != "expired";
    written(silences.iter().filter(is_shown).try_for_each(|silence| print(&mut out, silence)))
}

fn print(out: &mut impl Write, silence: &Silence) -> std::io::Result<()> {
    let Silence { id, status, matchers, starts_at, ends_at, created_by, comment } = silence;
    let matchers: Vec<String> = matchers.iter().map(ToString::to_string).collect();
    writeln!(out, "{}  {:<7}  {} to {}", escaped(id), status.state, escaped(starts_at), escaped(ends_at))?;
    writeln!(out, "    {}", escaped(&matchers.join(" ")))?;
    writeln!(out, "    {}: {}", escaped(created_by), escaped(comment))
}

async fn add(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let parsed = |text: String| SilenceMatcher::parse(&text).map_err(Failed::new);
    let matchers = texts(matches, "matchers").into_iter().map(parsed).collect::<Result<Vec<_>, _>>()?;
    let duration =
        parse_duration(&text("duration")).map_err(|error| Failed::new(format!("--duration: {error}")))?;
    let author = match text("author") {
        author if !author.is_empty() => author,
        _ => sandur_runtime::environment::variable("USER").unwrap_or_else(|| "sandur".to_owned()),
    };
    let begin = env.now_ns();
    let body = json!({
        "matchers": matchers,
        "startsAt": time(begin),
        "endsAt": time(begin.saturating_add(ns_of(duration))),
        "createdBy": author,
        "comment": text("comment"),
    });
    let headers = [("content-type", "application/json")];
    let body = body.to_string().into();
    let ask = Ask { method: Method::POST, path: SILENCES, headers: &headers, body, ..Ask::default() };
    let answer = client.ask(ask).await.map_err(refused)?;
    #[derive(Deserialize)]
    struct Added {
        #[serde(rename = "silenceID")]
        id: String,
    }
    let added: Added = serde_json::from_slice(&answer)
        .map_err(|error| Failed::new(format!("the server's answer cannot be read: {error}")))?;
    written(writeln!(std::io::stdout().lock(), "{}", escaped(&added.id)))
}

/// A time as RFC 3339.
fn time(ns: i64) -> String {
    Zone::utc().show_exactly(ns)
}

async fn expire(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    for id in texts(matches, "ids") {
        let path = format!("{SILENCE}/{}", escaped_segment(&id));
        let ask = Ask { method: Method::DELETE, path: &path, ..Ask::default() };
        client.ask(ask).await.map_err(refused)?;
        eprintln!("silence {id} is over");
    }
    Ok(ExitCode::SUCCESS)
}

/// The API answers errors as JSON texts.
fn refused(mut refusal: Refusal) -> Failed {
    if let Ok(text) = serde_json::from_str(&refusal.text) {
        refusal.text = text;
    }
    refusal.into()
}

/// A segment of a path.
fn escaped_segment(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

//! Requests with any method to any path of the server's own reference, with any values of parameters and
//! with bodies that follow their heads, many per connection.
//!
//! A connection may only end after an answer that announced it. Otherwise a client that is about to send
//! its next request would take the end for a failure of that request.

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sandur_bench::http::{escaped, read_answer};

use super::Attack;
use super::edge_numbers::{DURATIONS, NUMBERS};
use crate::draws::Draws;
use crate::ground::Ground;
use crate::raw;

/// This attack.
pub static ATTACK: Attack = Attack {
    name: "any-requests",
    about: "any method and parameter of every route, many requests per connection",
    run,
};

const METHODS: &[&str] = &["GET", "GET", "GET", "POST", "POST", "PUT", "DELETE", "OPTIONS"];
const TEXTS: &[&str] = &[
    "up",
    r#"{a="b"}"#,
    r#"rate({a=~".+"}[5m])"#,
    "up[5m:1s]",
    "up offset -1000y",
    "up @ 1e300",
    r#"label_replace(up,"a","$99999999999999999999","b","(.*)")"#,
    "a.*.{b,c}",
    "sumSeries(a.*)",
    r#"timeShift(a.b,"-999999y")"#,
    r#"summarize(a.b,"1ns","sum")"#,
    r#"{a=~"(x{1000}){1000}"}"#,
    "((((",
    "\0",
    "now-9999999999d",
    "00:00_20261127",
    "-292277022399-01-01T00:00:00Z",
    "png",
    "json",
    "pickle",
    "../../etc/passwd",
    "[1,2",
];
const TYPES: &[&str] =
    &["application/x-www-form-urlencoded", "application/json", "application/x-protobuf", "text/plain"];
const ENCODINGS: &[&str] = &["gzip", "snappy", "zstd", "x"];

/// A path of the reference with its parameters.
#[derive(Clone, Default)]
struct Path {
    text: String,
    parameters: Vec<String>,
}

fn run(ground: &Ground<'_>) -> Result<()> {
    let paths = paths(ground)?;
    let mut draws = Draws::new(ground.seed);
    let mut open: Option<BufReader<TcpStream>> = None;
    for _ in 0..ground.pick(400, 40_000) {
        let (what, head, body) = request(&paths, &mut draws);
        let is_first = open.is_none();
        let mut stream = match open.take() {
            Some(stream) => stream,
            None => BufReader::new(ground.connect().context("the server accepts no connection")?),
        };
        match exchange(&mut stream, &head, &body) {
            Ok((status, keeps)) => {
                ground.tally.answer(status, &what);
                open = keeps.then_some(stream);
            }
            Err(error) => {
                let where_ = if is_first { "" } else { ", on a connection that was left open" };
                ground.tally.finding(format!("{what}: no answer{where_}: {error}"));
            }
        }
    }
    Ok(())
}

/// Returns the paths of `sandur docs http-api`, except those that stop the server.
fn paths(ground: &Ground<'_>) -> Result<Vec<Path>> {
    let printed = Command::new(&ground.setup.program).args(["docs", "http-api"]).output()?;
    let page = String::from_utf8(printed.stdout)?;
    let mut paths = Vec::new();
    for section in page.split("\n### ").skip(1) {
        let mut lines = section.lines();
        let heading = lines.next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
        let also = section.lines().find_map(|line| line.strip_prefix("Also: ")).unwrap_or_default();
        let also = also.split(", ").map(|path| path.trim_matches('`'));
        let parameters = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let parameters: Vec<String> = parameters.map(str::to_owned).collect();
        let texts = std::iter::once(heading).chain(also).filter(|path| path.starts_with('/'));
        let of = |text: &str| Path { text: text.to_owned(), parameters: parameters.clone() };
        paths.extend(texts.filter(|path| !path.contains("shutdown")).map(of));
    }
    ensure!(paths.len() > 100, "the reference has only {} paths", paths.len());
    Ok(paths)
}

/// Returns a random request: a description, the head and the body.
fn request(paths: &[Path], draws: &mut Draws) -> (String, String, Vec<u8>) {
    let path = &paths[draws.below(paths.len())];
    let mut pairs = Vec::new();
    for _ in 0..draws.below(7) {
        let name = match path.parameters.is_empty() {
            true => "query",
            false => path.parameters[draws.below(path.parameters.len())].as_str(),
        };
        pairs.push(format!("{}={}", escaped(name), escaped(value(draws))));
    }
    let pairs = pairs.join("&");
    let method = draws.one(METHODS);
    let (mut query, mut body) = (format!("?{pairs}"), Vec::new());
    let mut headers = Vec::new();
    if matches!(method, "POST" | "PUT") {
        headers.push(("Content-Type", draws.one(TYPES)));
        if draws.below(4) == 0 {
            headers.push(("Content-Encoding", draws.one(ENCODINGS)));
        }
        match draws.below(3) {
            0 => {
                let length = draws.below(60);
                body = draws.bytes(length);
            }
            _ => (query, body) = (String::new(), pairs.into_bytes()),
        }
    }
    let target = filled(&path.text, draws) + &query;
    let head = raw::head(method, &target, &headers, body.len() as u64);
    let body_text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
    (format!("{method} {target} {headers:?} {body_text}"), head, body)
}

/// Fills the variables of a path with values.
fn filled(path: &str, draws: &mut Draws) -> String {
    let mut parts = path.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        filled += &escaped(value(draws));
        filled += part.split_once('}').map_or("", |(_, rest)| rest);
    }
    filled
}

/// Sends the body after the head, as clients do. Returns the status, and whether the connection stays
/// open.
fn exchange(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) -> io::Result<(u16, bool)> {
    stream.get_mut().write_all(head.as_bytes())?;
    stream.get_mut().write_all(body)?;
    let (answer, keeps) = read_answer(stream)?;
    Ok((answer.status, keeps))
}

/// Returns a value for any parameter.
fn value(draws: &mut Draws) -> &'static str {
    let of = match draws.below(4) {
        0 | 1 => TEXTS,
        2 => NUMBERS,
        _ => DURATIONS,
    };
    draws.one(of)
}

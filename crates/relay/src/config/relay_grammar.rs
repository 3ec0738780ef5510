//! Reads carbon-c-relay's configuration: statements of words, each terminated by `;`.

use std::path::PathBuf;
use std::time::Duration;

use sandur_base::spelling;

use super::destination;
use super::relay_words::{KEYWORDS, Word, words};
use super::source::{ConfigError, Source};
use crate::model::aggregate::{Aggregate, Closing, Compute, Function, Output, Stamp};
use crate::model::matcher::{Matcher, compile};
use crate::model::rewrite::{Pattern, Rewrite};
use crate::model::template::Template;
use crate::model::{
    Encryption, Listener, Method, Packing, Protocol, Route, Routing, Stage, Target, Transport, Validation,
};
use crate::replicas::Rule;
use crate::ring::{Kind, NODES_MAX};

/// The first words of statements.
pub(super) const STATEMENTS: &[&str] =
    &["cluster", "match", "rewrite", "aggregate", "send", "statistics", "listen", "include"];

/// The largest number of files, including included ones.
const FILES_MAX: usize = 1_000;

/// Reads a file and the files that it includes.
pub(super) fn read(source: &Source, routing: &mut Routing) -> Result<(), ConfigError> {
    routing.cleans_names = true;
    // Included files are read in place; the stack holds the unread rest of the files that include them.
    let mut stack = vec![Statements::of(source)?];
    let mut files = 1;
    let mut wrong = Vec::new();
    while let Some(top) = stack.last_mut() {
        let Some(statement) = top.next().unwrap_or_else(|error| {
            wrong.push(error);
            None
        }) else {
            stack.pop();
            continue;
        };
        let name = top.source_name.clone();
        let reader = Source { name, path: top.path.clone(), text: String::new() };
        if statement[0].text != "include" {
            let read = Statement { source: &reader, words: &statement, at: 1 }.read(routing);
            wrong.extend(read.err());
            keep_name(&statement, routing);
            continue;
        }
        let mut included = Vec::new();
        for path in includes(&reader, &statement)? {
            files += 1;
            if files > FILES_MAX {
                let reason = format!("more than {FILES_MAX} files are included: does one include itself?");
                return Err(reader.wrong(statement[0].line, reason));
            }
            included.push(Statements::of(&Source::open(&path)?)?);
        }
        stack.extend(included.into_iter().rev());
    }
    if !wrong.is_empty() {
        return Err(findings(wrong, routing));
    }
    if routing.listeners.is_empty() {
        for transport in [Transport::Tcp, Transport::Udp] {
            let address = "0.0.0.0:2003".to_owned();
            routing.listeners.push(Listener { address, transport, protocol: Protocol::Line });
        }
    }
    Ok(())
}

/// Adds the cluster of a statement that has an error, so that the statements that name it have none.
fn keep_name(statement: &[Word], routing: &mut Routing) {
    if let [first, name, ..] = statement
        && first.text == "cluster"
        && routing.cluster(&name.text).is_none()
    {
        routing.add_cluster(&name.text, Method::Nowhere, Vec::new());
    }
}

/// Joins errors and notes, so that one run shows all of them.
fn findings(mut wrong: Vec<ConfigError>, routing: &Routing) -> ConfigError {
    if routing.notes.is_empty() && wrong.len() == 1 {
        return wrong.remove(0);
    }
    let of_error = |error: &ConfigError| match error {
        ConfigError::Line { file, line, .. } => (file.clone(), *line, error.to_string()),
        other => (String::new(), 0, other.to_string()),
    };
    let notes = routing.notes.iter().map(|note| (note.file.clone(), note.line, note.to_string()));
    let mut findings: Vec<_> = notes.chain(wrong.iter().map(of_error)).collect();
    findings.sort();
    ConfigError::Several { findings: findings.into_iter().map(|(_, _, text)| text).collect() }
}

/// Returns the files of an include statement, whose pattern may match several.
fn includes(source: &Source, statement: &[Word]) -> Result<Vec<PathBuf>, ConfigError> {
    let line = statement[0].line;
    let [_, path] = statement else {
        return Err(source.wrong(line, "include takes one file or pattern"));
    };
    let absolute = source.path.parent().unwrap_or(&PathBuf::new()).join(&path.text);
    if !path.text.contains(['*', '?', '[']) {
        return Ok(vec![absolute]);
    }
    let found =
        glob::glob(&absolute.to_string_lossy()).map_err(|error| source.wrong(line, error.to_string()))?;
    Ok(found.filter_map(Result::ok).take(FILES_MAX).collect())
}

/// The statements of a file that are not read yet.
struct Statements {
    source_name: String,
    path: PathBuf,
    words: std::vec::IntoIter<Word>,
}

impl Statements {
    fn of(source: &Source) -> Result<Self, ConfigError> {
        let words = words(source)?.into_iter();
        Ok(Self { source_name: source.name.clone(), path: source.path.clone(), words })
    }

    /// Returns the words of the next statement without its `;`.
    fn next(&mut self) -> Result<Option<Vec<Word>>, ConfigError> {
        let mut statement = Vec::new();
        for word in self.words.by_ref() {
            if word.text == ";" && !word.is_quoted {
                if statement.is_empty() {
                    continue;
                }
                return Ok(Some(statement));
            }
            statement.push(word);
        }
        match statement.last() {
            None => Ok(None),
            Some(last) => {
                let (file, line) = (self.source_name.clone(), last.line);
                Err(ConfigError::Line { file, line, reason: "the last statement has no ';'".to_owned() })
            }
        }
    }
}

struct Statement<'a> {
    source: &'a Source,
    words: &'a [Word],
    at: usize,
}

impl Statement<'_> {
    fn read(mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        match self.words[0].text.as_str() {
            "cluster" => self.cluster(routing)?,
            "match" => self.matches(routing)?,
            "rewrite" => self.rewrite(routing)?,
            "aggregate" => self.aggregate(routing)?,
            "send" | "statistics" => self.statistics(routing)?,
            "listen" => self.listen(routing)?,
            other => return Err(self.wrong(format!("no statement begins with '{other}'"))),
        }
        match self.words.get(self.at) {
            None => Ok(()),
            Some(word) => Err(self.source.wrong(word.line, format!("'{}' is not expected here", word.text))),
        }
    }

    fn line(&self) -> usize {
        self.words.get(self.at).or(self.words.last()).map_or(1, |word| word.line)
    }

    fn wrong(&self, reason: impl Into<String>) -> ConfigError {
        self.source.wrong(self.line(), reason)
    }

    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).filter(|word| !word.is_quoted).map(|word| word.text.as_str())
    }

    /// Returns the next word, which may be anything; `what` names it in an error.
    fn word(&mut self, what: &str) -> Result<String, ConfigError> {
        let Some(word) = self.words.get(self.at) else {
            return Err(self.wrong(format!("{what} is missing")));
        };
        self.at += 1;
        Ok(word.text.clone())
    }

    /// Skips the given words if they come next.
    fn take(&mut self, expected: &[&str]) -> bool {
        let next = self.words.iter().skip(self.at).take(expected.len());
        let found = next.filter(|word| !word.is_quoted).map(|word| word.text.as_str());
        let is_next = found.eq(expected.iter().copied());
        self.at += if is_next { expected.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, expected: &[&str]) -> Result<(), ConfigError> {
        let missing = self.wrong(format!("'{}' is expected here", expected.join(" ")));
        if self.take(expected) { Ok(()) } else { Err(missing) }
    }

    fn number(&mut self, what: &str) -> Result<u32, ConfigError> {
        let text = self.word(what)?;
        text.parse().map_err(|_| self.wrong(format!("'{text}' is not {what}")))
    }

    fn cluster(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        let name = self.word("a cluster's name")?;
        if routing.cluster(&name).is_some() {
            return Err(self.wrong(format!("there is another cluster '{name}'")));
        }
        let kind = self.word("a cluster's type")?;
        let mut method = match kind.as_str() {
            "forward" => Method::All,
            "any_of" => Method::AnyOf,
            "failover" => Method::Failover,
            // The original refuses a file without one of these three before `useall`.
            "useall" => {
                self.at -= 1;
                Method::All
            }
            "file" => {
                routing.note(self.source, self.line(), &name, "points are not written to files", true);
                routing.add_cluster(&name, Method::Nowhere, Vec::new());
                self.at = self.words.len();
                return Ok(());
            }
            ring => {
                let reason = self.wrong(format!("there is no cluster type '{ring}'"));
                let kind = Kind::named("carbon-c-relay", ring).ok_or(reason)?;
                Method::Ring { kind, copies: 1, rule: Rule::Ring, moves: false }
            }
        };
        if let Method::Ring { copies, moves, .. } = &mut method {
            if self.take(&["replication"]) {
                *copies = (self.number("a count of replicas")? as usize).clamp(1, NODES_MAX);
            }
            *moves = self.take(&["dynamic"]);
        } else if self.take(&["useall"]) {
            let why = "a target connects to one of the addresses of a name only";
            routing.note(self.source, self.line(), "useall", why, true);
        }
        let mut targets = Vec::new();
        while self.at < self.words.len() {
            let target = self.target(routing)?;
            targets.push(routing.target(target));
        }
        if targets.is_empty() {
            return Err(self.wrong(format!("cluster '{name}' has no members")));
        }
        routing.add_cluster(&name, method, targets);
        Ok(())
    }

    fn target(&mut self, routing: &mut Routing) -> Result<Target, ConfigError> {
        let line = self.line();
        let (is_keyword, mut text) =
            (self.peek().is_some_and(|word| KEYWORDS.contains(&word)), self.word("a host")?);
        if is_keyword {
            let reason = format!("'{text}' is a keyword and not a host: is a ';' missing before it?");
            return Err(self.source.wrong(line, reason));
        }
        self.doubt_word(line, &text, routing);
        if self.take(&["="]) {
            text = format!("{text}={}", self.word("an instance")?);
        }
        let node = destination::relay(&text).map_err(|why| {
            self.source.wrong(line, format!("{why}: is a ';' missing before it, or an option misspelled?"))
        })?;
        let mut target = Target::new(node);
        target.transport = self.protocol()?.unwrap_or_default();
        if self.take(&["type"]) {
            let kind = self.word("a type")?;
            if kind != "linemode" {
                routing.note(self.source, self.line(), &kind, "targets take lines", true);
            }
        }
        let line = self.line();
        let wrapping = self.transport(routing)?;
        if target.transport == Transport::Udp && wrapping != Wrapping::default() {
            let why = "datagrams are neither compressed nor encrypted";
            routing.note(self.source, line, "transport", why, true);
        } else {
            (target.packing, target.encryption) = wrapping;
        }
        Ok(target)
    }

    /// Notes a host without domain, port and instance: it may be a misspelled option.
    fn doubt_word(&self, line: usize, text: &str, routing: &mut Routing) {
        if text.contains(['.', ':', '=', '*']) || text.contains(|letter: char| letter.is_ascii_digit()) {
            return;
        }
        if text == "localhost" || self.words.get(self.at).is_some_and(|next| next.text == "=") {
            return;
        }
        let meant = spelling::nearest(text, KEYWORDS.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default();
        routing.doubt(self.source, line, text, format!("this word is the host {text}:2003{meant}"));
    }

    fn protocol(&mut self) -> Result<Option<Transport>, ConfigError> {
        if !self.take(&["proto"]) {
            return Ok(None);
        }
        match self.word("udp or tcp")?.as_str() {
            "udp" => Ok(Some(Transport::Udp)),
            "tcp" => Ok(Some(Transport::Tcp)),
            other => Err(self.wrong(format!("'{other}' is neither udp nor tcp"))),
        }
    }

    /// Reads the compression and encryption of a connection. An unknown compression gives a note.
    fn transport(&mut self, routing: &mut Routing) -> Result<Wrapping, ConfigError> {
        if !self.take(&["transport"]) {
            return Ok(Wrapping::default());
        }
        let line = self.line();
        let kind = self.word("a transport")?;
        let packing = Packing::named(&kind).unwrap_or_else(|| {
            let why = "connections are plain, or compressed with gzip, lz4 or zstd";
            routing.note(self.source, line, &kind, why, true);
            Packing::Plain
        });
        let encryption = if self.take(&["ssl"]) {
            Some(Encryption::default())
        } else if self.take(&["mtls"]) {
            let identity = (self.word("a certificate")?.into(), self.word("a key")?.into());
            Some(Encryption { authorities: None, identity: Some(identity) })
        } else {
            None
        };
        Ok((packing, encryption))
    }

    /// Reads expressions up to a keyword. Returns `None` if one of them cannot be compiled.
    fn expressions(&mut self, ends: &[&str], routing: &mut Routing) -> Option<Vec<regex::bytes::Regex>> {
        let (mut all, mut is_whole) = (Vec::new(), true);
        while let Some(word) = self.words.get(self.at) {
            if !word.is_quoted && ends.contains(&word.text.as_str()) {
                break;
            }
            match compile(&word.text, false) {
                Ok(expression) => all.push(expression),
                Err(error) => {
                    routing.note(self.source, word.line, &word.text, error.to_string(), true);
                    is_whole = false;
                }
            }
            self.at += 1;
        }
        is_whole.then_some(all)
    }

    fn clusters(&mut self, routing: &mut Routing) -> Result<Vec<usize>, ConfigError> {
        let mut clusters = Vec::new();
        while let Some(name) = self.peek().filter(|name| !["stop", "prefix"].contains(name)) {
            let known = routing.cluster(name);
            let cluster = match (known, name) {
                (Some(cluster), _) => cluster,
                (None, "blackhole") => routing.add_cluster("blackhole", Method::Nowhere, Vec::new()),
                (None, name) => return Err(self.wrong(format!("there is no cluster '{name}' above"))),
            };
            clusters.push(cluster);
            self.at += 1;
        }
        if clusters.is_empty() {
            return Err(self.wrong("'send to' names no cluster"));
        }
        Ok(clusters)
    }

    fn matches(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        let start = self.line();
        let is_all = self.take(&["*"]);
        let ends = ["validate", "send", "route", "stop"];
        let found = if is_all { Some(Vec::new()) } else { self.expressions(&ends, routing) };
        if found.as_ref().is_some_and(|found| found.is_empty() != is_all) {
            return Err(self.source.wrong(start, "match has no expression; '*' matches every name"));
        }
        let validation = if self.take(&["validate"]) { self.validation(routing)? } else { None };
        let masquerade = if self.take(&["route", "using"]) { Some(self.word("a template")?) } else { None };
        let clusters = if self.take(&["send", "to"]) { self.clusters(routing)? } else { Vec::new() };
        let ends_here = |cluster: &usize| matches!(routing.clusters[*cluster].method, Method::Nowhere);
        let says_stop = self.take(&["stop"]);
        // `stop` belongs to `send to`.
        let stops = !clusters.is_empty() && (says_stop || clusters.iter().any(ends_here));
        let Some(expressions) = found else { return Ok(()) };
        let replacement = masquerade.map(|template| Template::relay(&template));
        let keys =
            expressions.iter().zip(replacement.into_iter().cycle()).map(|(expression, replacement)| {
                let pattern = Pattern::Expression(expression.clone());
                Rewrite { pattern, replacement, times: Some(1), except: None }
            });
        let keys = keys.collect();
        let matcher = if is_all { Matcher::everything() } else { Matcher::any_of(expressions) };
        routing.stages.push(Stage::Route(Route { matcher, validation, clusters, stops, keys }));
        Ok(())
    }

    /// Reads what follows `validate`. Returns `None` if the expression cannot be compiled.
    fn validation(&mut self, routing: &mut Routing) -> Result<Option<Validation>, ConfigError> {
        let (line, text) = (self.line(), self.word("an expression")?);
        self.expect(&["else"])?;
        let logs = match self.word("log or drop")?.as_str() {
            "log" => true,
            "drop" => false,
            other => return Err(self.wrong(format!("'{other}' is neither log nor drop"))),
        };
        match compile(&text, false) {
            Ok(expression) => Ok(Some(Validation { data: Matcher::any_of(vec![expression]), logs })),
            Err(error) => {
                routing.note(self.source, line, &text, error.to_string(), true);
                Ok(None)
            }
        }
    }

    fn rewrite(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        let (line, text) = (self.line(), self.word("an expression")?);
        self.expect(&["into"])?;
        let replacement = Template::relay(&self.word("a replacement")?);
        match compile(&text, false) {
            Ok(expression) => {
                let pattern = Pattern::Expression(expression);
                let rewrite = Rewrite { pattern, replacement, times: Some(1), except: None };
                routing.stages.push(Stage::Rewrite(rewrite));
            }
            Err(error) => routing.note(self.source, line, &text, error.to_string(), true),
        }
        Ok(())
    }

    fn aggregate(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        let found = self.expressions(&["every"], routing);
        self.expect(&["every"])?;
        let interval = self.number("a number of seconds")?;
        self.expect(&["seconds", "expire", "after"])?;
        let expire = self.number("a number of seconds")?;
        self.expect(&["seconds"])?;
        if interval == 0 || expire < interval {
            return Err(
                self.wrong("an interval must be at least 1 second and must not expire before it ends")
            );
        }
        let stamp = match self.take(&["timestamp", "at"]) {
            false => Stamp::End,
            true => {
                let stamp = match self.word("start, middle or end")?.as_str() {
                    "start" => Stamp::Start,
                    "middle" => Stamp::Middle,
                    "end" => Stamp::End,
                    other => return Err(self.wrong(format!("'{other}' is none of start, middle and end"))),
                };
                self.expect(&["of", "bucket"])?;
                stamp
            }
        };
        let mut computes = Vec::new();
        while self.take(&["compute"]) {
            let name = self.word("a function")?;
            let function =
                function(&name).ok_or_else(|| self.wrong(format!("there is no function '{name}'")))?;
            self.expect(&["write", "to"])?;
            computes.push(Compute { function, name: Template::relay(&self.word("a name")?) });
        }
        if computes.is_empty() {
            return Err(self.wrong("aggregate computes nothing"));
        }
        let output = match self.take(&["send", "to"]) {
            true => Output::Clusters(self.clusters(routing)?),
            false => Output::Stage(0),
        };
        let stops = self.take(&["stop"]);
        let closing = Closing::After(Duration::from_secs(expire.into()));
        let matcher = Matcher::everything();
        if let Some(expressions) = found {
            let aggregate =
                Aggregate { matcher, expressions, interval, closing, stamp, computes, output, stops };
            routing.stages.push(Stage::Aggregate(aggregate));
        }
        Ok(())
    }

    fn statistics(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        if self.words[0].text == "send" {
            self.expect(&["statistics", "to"])?;
            routing.statistics.clusters = Some(self.clusters(routing)?);
        }
        while self.at < self.words.len() {
            if self.take(&["submit", "every"]) {
                let seconds = self.number("a number of seconds")?;
                routing.statistics.every = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                self.expect(&["seconds"])?;
            } else if self.take(&["prefix", "with"]) {
                let prefix = self.word("a prefix")?;
                routing.statistics.prefix = prefix.replace("\\.1", "HOST").replace("\\1", "HOST");
            } else if self.take(&["send", "to"]) {
                routing.statistics.clusters = Some(self.clusters(routing)?);
            } else if !self.take(&["stop"]) && !self.take(&["reset", "counters", "after", "interval"]) {
                // The relay's counters always count one interval, as carbon's do.
                return Err(self.wrong("this is not an option of 'statistics'"));
            }
        }
        Ok(())
    }

    fn listen(&mut self, routing: &mut Routing) -> Result<(), ConfigError> {
        self.expect(&["type", "linemode"])?;
        let line = self.line();
        if self.transport(routing)? != Wrapping::default() {
            let why = "listeners of the relay are plain; those of the server (carbon_listen) open what is \
                       compressed";
            routing.note(self.source, line, "transport", why, true);
        }
        while self.at < self.words.len() {
            let (line, place) = (self.line(), self.word("an address")?);
            if self.take(&["proto", "unix"]) {
                routing.note(self.source, line, &place, "the relay listens on addresses only", false);
                continue;
            }
            let Some(transport) = self.protocol()? else {
                return Err(self.wrong("'proto udp', 'proto tcp' or 'proto unix' is expected here"));
            };
            let address = match place.parse::<u16>() {
                Ok(port) => format!("0.0.0.0:{port}"),
                Err(_) if place.contains(':') => place,
                Err(_) => format!("{place}:2003"),
            };
            routing.listeners.push(Listener { address, transport, protocol: Protocol::Line });
        }
        Ok(())
    }
}

/// The compression and encryption of a connection.
type Wrapping = (Packing, Option<Encryption>);

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sum" => Function::Sum,
        "count" | "cnt" => Function::Count,
        "max" => Function::Max,
        "min" => Function::Min,
        "average" | "avg" => Function::Average,
        "median" => Function::NearestRank(50),
        "variance" => Function::Variance,
        "stddev" => Function::Deviation,
        _ => {
            let percent: u8 = name.strip_prefix("percentile")?.trim_end_matches('%').parse().ok()?;
            Function::NearestRank(Some(percent).filter(|percent| (1..=100).contains(percent))?)
        }
    })
}

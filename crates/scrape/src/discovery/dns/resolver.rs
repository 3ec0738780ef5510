//! Looks up names as the system's resolver would: with the servers and domains of `/etc/resolv.conf`.
//!
//! **Invariants.** Numbers of servers, domains and attempts, the bytes of an answer and the time of an
//! attempt are bounded. Aliases are not followed: name servers that resolve names return what an alias stands
//! for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::small_file;
use sandur_memory::MemoryBudget;
use sandur_runtime::{Env, Lane};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::message::{Answer, DATAGRAM_BYTES, Query, Record};
use crate::config::RecordKind;
use crate::scrape::short_of;

/// The largest configuration file in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The largest number of name servers, and of domains that are appended to a name.
const SERVERS_MAX: usize = 8;
const DOMAINS_MAX: usize = 32;
/// The longest time of one attempt, and the largest number of attempts per server.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
const ATTEMPTS_MAX: u64 = 3;
/// The largest number of names that are looked up at a time: each needs a socket.
const LOOKUPS_MAX: usize = 64;
/// The longest look-up with all servers, domains and attempts.
const LOOKUP_MAX: Duration = Duration::from_secs(60);

/// Servers, and how names are completed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    servers: Vec<IpAddr>,
    domains: Vec<String>,
    /// The least number of dots of names that are looked up without a domain first.
    dots: usize,
    timeout: Duration,
    attempts: u64,
}

impl Settings {
    /// Parses a file as the C library does: unknown lines and options are ignored.
    fn parse(text: &str) -> Self {
        let mut settings =
            Self { servers: Vec::new(), domains: Vec::new(), dots: 1, timeout: ATTEMPT_MAX, attempts: 2 };
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    settings.servers.extend(server);
                }
                Some("domain" | "search") => settings.domains = words.map(str::to_owned).collect(),
                Some("options") => words.for_each(|word| settings.set(word)),
                _ => {}
            }
        }
        settings.servers.truncate(SERVERS_MAX);
        settings.domains.truncate(DOMAINS_MAX);
        if settings.servers.is_empty() {
            settings.servers.push(Ipv4Addr::LOCALHOST.into());
        }
        settings
    }

    fn set(&mut self, option: &str) {
        let Some((name, Ok(value))) = option.split_once(':').map(|(name, text)| (name, text.parse::<u64>()))
        else {
            return;
        };
        match name {
            "ndots" => self.dots = value.min(15) as usize,
            "timeout" => self.timeout = Duration::from_secs(value.max(1)).min(ATTEMPT_MAX),
            "attempts" => self.attempts = value.clamp(1, ATTEMPTS_MAX),
            _ => {}
        }
    }

    /// Returns the names to look up, in order.
    fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(complete) = name.strip_suffix('.') {
            return vec![complete.to_owned()];
        }
        let domains = self.domains.iter().map(|domain| domain.trim_matches('.'));
        let domains = domains.filter(|domain| !domain.is_empty());
        let mut all: Vec<String> = domains.map(|domain| format!("{name}.{domain}")).collect();
        let is_first = name.matches('.').count() >= self.dots;
        all.insert(if is_first { 0 } else { all.len() }, name.to_owned());
        all
    }
}

/// Looks up names. The configuration file is read at each look-up, since it may change.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) env: Env,
    pub(crate) memory: MemoryBudget,
    pub(crate) file: PathBuf,
    pub(crate) port: u16,
    pub(crate) turns: Arc<Semaphore>,
}

impl Resolver {
    /// The resolver of the system.
    pub(crate) fn system(env: &Env, memory: &MemoryBudget) -> Self {
        let (file, port) = (PathBuf::from("/etc/resolv.conf"), 53);
        let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { env: env.clone(), memory: memory.clone(), file, port, turns }
    }

    /// Returns the records of a name. A name that no server knows has none; that servers do not answer, or
    /// answer with a failure, is an error.
    pub(super) async fn records(&self, name: &str, kind: RecordKind) -> Result<Vec<Record>, String> {
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let path = self.file.clone();
        let read = self.env.run_blocking(move || small_file::read_text(path, FILE_BYTES_MAX)).await;
        let text = read.map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        let settings = Settings::parse(&text);
        let found = self.env.timeout(LOOKUP_MAX, self.complete(&settings, name, kind)).await;
        found.unwrap_or_else(|| Err(format!("no answer within {} s", LOOKUP_MAX.as_secs())))
    }

    /// Looks up the completions of a name until one exists.
    async fn complete(
        &self,
        settings: &Settings,
        name: &str,
        kind: RecordKind,
    ) -> Result<Vec<Record>, String> {
        let mut failure = None;
        for candidate in settings.candidates(name) {
            match self.ask_all(settings, &candidate, kind).await {
                Ok(Answer::Records(records)) => return Ok(records),
                Ok(_) => {}
                // A later candidate may exist, but if none does, it is unknown whether this one does.
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        failure.map_or(Ok(Vec::new()), Err)
    }

    /// Asks the servers in turn until one answers.
    async fn ask_all(&self, settings: &Settings, name: &str, kind: RecordKind) -> Result<Answer, String> {
        let mut failure = String::new();
        for _ in 0..settings.attempts {
            for server in &settings.servers {
                let query = Query { id: u16::from_be_bytes(self.env.secret()), name: name.to_owned(), kind };
                let server = SocketAddr::new(*server, self.port);
                let asked = self.env.timeout(settings.timeout, self.ask(server, &query)).await;
                match asked.unwrap_or_else(|| Err("no answer".to_owned())) {
                    Ok(answer) => return Ok(answer),
                    Err(error) => failure = format!("{name}: name server {server}: {error}"),
                }
            }
        }
        Err(failure)
    }

    async fn ask(&self, server: SocketAddr, query: &Query) -> Result<Answer, String> {
        let question = query.bytes()?;
        let message = datagram(server, query, &question).await.map_err(|error| error.to_string())?;
        match self.answer(query, message).await? {
            Answer::Truncated => {}
            answer => return Ok(answer),
        }
        match self.answer(query, self.stream(server, query, &question).await?).await? {
            Answer::Truncated => Err("the answer is truncated over TCP, too".to_owned()),
            answer => Ok(answer),
        }
    }

    /// Parses a message. A hostile one takes long, so this is done on the CPU pool.
    async fn answer(&self, query: &Query, message: Vec<u8>) -> Result<Answer, String> {
        let (query, memory) = (query.clone(), self.memory.clone());
        self.env.run_cpu(Lane::Background, move || query.answer(&message, &memory)).await
    }

    /// Asks over TCP.
    async fn stream(&self, server: SocketAddr, query: &Query, question: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| format!("over TCP: {error}");
        let mut stream = TcpStream::connect(server).await.map_err(failed)?;
        let length = u16::try_from(question.len()).map_err(|error| error.to_string())?;
        let framed = [&length.to_be_bytes()[..], question].concat();
        stream.write_all(&framed).await.map_err(failed)?;
        let length = stream.read_u16().await.map_err(failed)?;
        let _held = self.memory.reserve(u64::from(length)).map_err(|error| short_of(&error))?;
        let mut message = vec![0; usize::from(length)];
        stream.read_exact(&mut message).await.map_err(failed)?;
        if !query.is_answered_by(&message) {
            return Err("over TCP: the answer is to another question".to_owned());
        }
        Ok(message)
    }
}

/// Asks by a datagram from a port that the system chooses. Messages from other addresses do not arrive.
async fn datagram(server: SocketAddr, query: &Query, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; usize::from(DATAGRAM_BYTES) * 4];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if query.is_answered_by(&buffer[..length]) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_system_says_which_servers_and_names_are_asked() {
        let text = "# comment\nnameserver 10.0.0.1\nnameserver fd00::1 ; second\nnameserver nonsense\n\
                    search a.example. b.example\noptions ndots:2 timeout:90 attempts:9 rotate\n";
        let settings = Settings::parse(text);
        let servers: Vec<String> = settings.servers.iter().map(IpAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.1", "fd00::1"]);
        assert_eq!((settings.timeout, settings.attempts), (ATTEMPT_MAX, ATTEMPTS_MAX));
        assert_eq!(settings.candidates("x.y"), ["x.y.a.example", "x.y.b.example", "x.y"]);
        assert_eq!(settings.candidates("x.y.z"), ["x.y.z", "x.y.z.a.example", "x.y.z.b.example"]);
        assert_eq!(settings.candidates("x."), ["x"]);
        assert_eq!(Settings::parse("").servers, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        let many = Settings::parse(&"nameserver 10.0.0.1\n".repeat(1_000));
        assert_eq!(many.servers.len(), SERVERS_MAX);
    }
}

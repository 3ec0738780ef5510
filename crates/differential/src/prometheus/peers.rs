//! The two peers: a real Prometheus; and Sandur, as a server or as the engine over series in memory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_bench::http::{Connection, escaped};
use sandur_promql::{Options, Request, query};
use sandur_query::MemorySeries;
use sandur_runtime::Env;
#[cfg(test)]
use {
    sandur_promql::Value,
    sandur_promql::partial::{self, Partial, SubQuery},
    sandur_query::{Error, Part, PartRequest, QueryContext},
};

use super::answer::Answer;
use super::ask::Ask;
use super::remote_write;
use super::series::{RandomSeries, Sample};
use crate::in_process::InProcess;

/// The longest time to wait until a server is ready, and for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Prometheus's feature flags that enable the complete language.
const FEATURES: &str = "promql-experimental-functions,promql-delayed-name-removal,\
                        promql-binop-fill-modifiers,promql-unquoted-utf8-names";

/// Accepts old samples in any order.
const CONFIG: &str = "storage:\n  tsdb:\n    out_of_order_time_window: 30d\n";

/// A server process that is killed when the value is dropped.
pub struct Server {
    child: Child,
    connection: Connection,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts Prometheus on an empty directory.
    pub async fn prometheus(env: &Env, program: &Path, directory: &Path) -> Result<Self> {
        let config = directory.join("prometheus.yml");
        fs::write(&config, CONFIG)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("prometheus").display()));
        command.arg(format!("--web.listen-address={address}"));
        command.args(["--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y"]);
        command.arg(format!("--enable-feature={FEATURES}"));
        Self::start(env, command, address, &directory.join("prometheus.log")).await
    }

    /// Starts our server on an empty directory.
    pub async fn sandur(env: &Env, program: &Path, directory: &Path) -> Result<Self> {
        let config = directory.join("sandur.toml");
        fs::write(&config, "[limits]\nreject_old_samples_max_age = \"0s\"\n")?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["serve", "--store", &format!("file://{}", directory.join("sandur").display())]);
        command.args(["--listen", &address, "--config"]).arg(&config);
        Self::start(env, command, address, &directory.join("sandur.log")).await
    }

    async fn start(env: &Env, mut command: Command, address: String, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        command.env("TZ", "UTC").stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let connection = Connection::new(&address).with_timeout(PATIENCE);
        let mut server = Self { child, connection, address };
        let started = env.monotonic();
        while !server.connection.get("/api/v1/query?query=1").is_ok_and(|answer| answer.status == 200) {
            let said = || fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = server.child.try_wait()? {
                bail!("it ended with {status}:\n{}", said());
            }
            if env.monotonic() - started > PATIENCE {
                bail!("it was not ready within {PATIENCE:?}:\n{}", said());
            }
            env.sleep(LOOK_EVERY).await;
        }
        Ok(server)
    }

    /// Returns `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends the series by remote write.
    pub fn push(&mut self, series: &[RandomSeries]) -> Result<()> {
        let headers = [
            "Content-Type: application/x-protobuf",
            "Content-Encoding: snappy",
            "X-Prometheus-Remote-Write-Version: 0.1.0",
        ];
        for body in remote_write::bodies(series) {
            let answer = self.connection.post("/api/v1/write", &headers, &body)?;
            if answer.status / 100 != 2 {
                bail!("a push: {} {}", answer.status, answer.text());
            }
        }
        Ok(())
    }

    /// Flushes memory to the store.
    pub fn flush(&mut self) -> Result<()> {
        self.connection.post("/flush", &[], &[])?;
        Ok(())
    }

    fn ask(&mut self, ask: &Ask) -> Answer {
        let (path, parameters) = ask.parameters();
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let headers = ["Content-Type: application/x-www-form-urlencoded"];
        let answer = self.connection.post(&format!("/api/v1/{path}"), &headers, pairs.join("&").as_bytes());
        match answer {
            Ok(answer) => Answer::from_json(&answer.body),
            Err(error) => Answer::refusal(format!("no answer: {error}")),
        }
    }
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Our engine in this process.
pub struct Engine {
    process: InProcess,
    source: MemorySeries,
}

impl Engine {
    /// An engine over these series.
    pub fn over(series: &[RandomSeries]) -> Result<Self> {
        let mut source = MemorySeries::default();
        for one in series {
            source.edit(&one.labels, |samples| {
                let mut times = Vec::new();
                for (time, sample) in &one.samples {
                    match sample {
                        Sample::Float(value) => {
                            times.push(*time);
                            samples.values.push(*value);
                        }
                        Sample::Histogram(histogram, _) => {
                            samples.histogram_times.push(*time);
                            samples.histograms.push(Arc::clone(histogram));
                        }
                    }
                }
                samples.times = times.into();
            });
        }
        Ok(Self { process: InProcess::new()?, source })
    }

    /// Evaluates a query.
    pub fn ask(&self, ask: &Ask) -> Answer {
        let context = self.process.context();
        let (text, options) = (ask.expression.to_string(), Options::default());
        let request = Request { query: text, times: ask.times, options };
        let answer = self.process.run(query(&self.source, &context, &request));
        Answer::from_engine(answer, ask.times.end)
    }
}

/// Answers of the engine in parts, for tests.
#[cfg(test)]
impl Engine {
    /// Evaluates a query as one process and as several that each read a part of the series. Returns both
    /// answers as text.
    pub fn ask_in_parts(&self, ask: &Ask, count: u16) -> [String; 2] {
        let context = self.process.context();
        let (text, options) = (ask.expression.to_string(), Options::default());
        let request = Request { query: text, times: ask.times, options };
        let whole = self.process.run(query(&self.source, &context, &request));
        let parts = self.process.run(self.joined(&context, &request, count));
        let shown = |answer: Result<sandur_promql::Answer, Error>| match answer {
            Ok(answer) => {
                let (mut warnings, mut infos, mut value) = (answer.warnings, answer.infos, answer.value);
                warnings.sort();
                infos.sort();
                if let (Value::Vector(series), false) = (&mut value, ask.is_ordered()) {
                    series.sort_by(|a, b| a.0.cmp(&b.0));
                }
                format!("{value:?} {warnings:?} {infos:?} {} samples", answer.samples)
            }
            Err(error) => format!("failed: {}", error.kind() as u8),
        };
        [shown(whole), shown(parts)]
    }

    async fn joined(
        &self,
        context: &QueryContext,
        request: &Request,
        count: u16,
    ) -> Result<sandur_promql::Answer, Error> {
        let expr = sandur_promql::parse(&request.query)?;
        let mut answers = Vec::new();
        for asked in partial::sub_queries(request, &expr)? {
            for index in 0..count {
                let message = PartRequest::new(context, Part::of(index, count)?, asked.to_bytes()).to_bytes();
                let message = PartRequest::from_bytes(&message)?;
                let (asked, context) =
                    (SubQuery::from_bytes(&message.request)?, message.restrict(context.clone()));
                let answer = partial::answer_part(&self.source, &context, &asked).await?.to_bytes();
                let answer = message.checked(answer)?;
                answers.push(Partial::from_bytes(&answer, &context, request, &expr)?);
            }
        }
        partial::join(&self.source, context, request, &expr, answers).await
    }
}

/// One of the two peers.
pub enum Peer {
    /// A server.
    Server(Server),
    /// The engine in this process.
    Engine(Engine),
}

impl Peer {
    /// Sends a query.
    pub fn ask(&mut self, ask: &Ask) -> Answer {
        match self {
            Self::Server(server) => server.ask(ask),
            Self::Engine(engine) => engine.ask(ask),
        }
    }
}

//! `cargo xtask snippets [--program FILE]`: runs clients with the configurations of `docs/clients.md`.
//!
//! A server with credentials is started for each client. The configuration is taken from the page as it
//! is written; only addresses, folders and the file of the token are replaced. The check is that lines
//! and samples arrive under the tenant of the token. Clients that cannot be built from a package registry
//! are listed as not run.

#![allow(clippy::disallowed_methods)] // it waits for programs outside the product

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::http::{self, encode};
use crate::local_server::LocalServer;
use crate::process::{find, output, root};
use crate::rivals;

/// Far longer than the first scrape and push of a client take.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LINES: usize = 50;
/// The address of the page.
const ADDRESS: &str = "https://sandur.example.org:3100";

/// A client that is run.
struct Client {
    /// The first line of its configuration, without the comment sign, is this name.
    file: &'static str,
    program: &'static str,
    arguments: fn(&Path, SocketAddr) -> Vec<String>,
    /// Texts of the page that are replaced: by an own free address, or by a path below the folder.
    addresses: &'static [&'static str],
    paths: &'static [(&'static str, &'static str)],
    /// Queries that must have a result, in LogQL and PromQL. `LINES` stands for the number of lines.
    logql: Option<&'static str>,
    promql: &'static str,
}

const CLIENTS: &[Client] = &[
    Client {
        file: "otel-collector.yaml",
        program: "collector",
        arguments: |config, _| vec![format!("--config={}", config.display())],
        addresses: &["127.0.0.1:4317", "127.0.0.1:4318"],
        paths: &[("/var/log/", "logs/")],
        logql: Some("sum(count_over_time({service_name=\"varlogs\"} |= \"request done\" [5m])) == LINES"),
        promql: "count(system_memory_usage_bytes) > 0",
    },
    Client {
        file: "prometheus.yml",
        program: "prometheus",
        arguments: |config, listen| {
            let data = config.with_file_name("tsdb");
            vec![
                format!("--config.file={}", config.display()),
                format!("--storage.tsdb.path={}", data.display()),
                format!("--web.listen-address={listen}"),
            ]
        },
        addresses: &["127.0.0.1:9090"],
        paths: &[("/etc/prometheus/", "")],
        logql: None,
        promql: "up{job=\"prometheus\", cluster=\"eu-1\"} == 1",
    },
];

/// Files of the page that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("config.alloy", "the Go module registry does not serve Alloy"),
    ("vector.yaml", "Debian has no package of Vector"),
    ("fluent-bit.yaml", "Debian has no package of Fluent Bit"),
    ("promtail.yaml", "Loki's current module does not contain Promtail"),
];

/// Runs all clients.
pub fn run(arguments: &[String]) -> Result<()> {
    let program = match arguments {
        [] => root().join("target/demo/sandur"),
        [name, program] if name == "--program" => PathBuf::from(program),
        _ => bail!("usage: cargo xtask snippets [--program FILE]"),
    };
    let page = fs::read_to_string(root().join("docs/clients.md"))?;
    let blocks = blocks(&page);
    for (name, _) in &blocks {
        let is_known =
            CLIENTS.iter().any(|client| client.file == name) || NOT_RUN.iter().any(|(file, _)| file == name);
        if !is_known {
            bail!("docs/clients.md: {name} is neither run nor listed in NOT_RUN");
        }
    }
    for client in CLIENTS {
        let text = blocks.iter().find(|(name, _)| name == client.file);
        let (_, text) = text.with_context(|| format!("docs/clients.md has no {}", client.file))?;
        rivals::ensure(&[client.program])?;
        client.run(text, &program).with_context(|| client.file)?;
    }
    for (name, reason) in NOT_RUN {
        println!("NOT RUN: {name}: {reason}");
    }
    Ok(())
}

/// The configurations of the page: blocks whose first line is a comment with the name of a file.
fn blocks(page: &str) -> Vec<(String, String)> {
    let fenced = page.split("\n```").skip(1).step_by(2);
    let blocks = fenced.filter_map(|block| {
        let (_, text) = block.split_once('\n')?;
        let first = text.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        Some((name.to_owned(), format!("{text}\n")))
    });
    blocks.collect()
}

impl Client {
    fn run(&self, text: &str, program: &Path) -> Result<()> {
        let folder = root().join("target/snippets").join(self.program);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("logs"))?;
        let lines: String = (0..LINES).map(|n| format!("level=info msg=\"request done\" n={n}\n")).collect();
        fs::write(folder.join("logs/app.log"), lines)?;
        let (token, credentials) = credentials(program)?;
        let auth = folder.join("auth.toml");
        fs::write(&auth, credentials)?;
        fs::write(folder.join("sandur.token"), &token)?;
        let store = folder.join("store").display().to_string();
        let server = LocalServer::start(program, &store, &folder, |_| {
            vec!["--auth-file".to_owned(), auth.display().to_string()]
        })?;

        let mut text = text.to_owned();
        let mut replace = |old: &str, new: &str| -> Result<()> {
            if !text.contains(old) {
                bail!("the configuration does not contain '{old}'");
            }
            text = text.replace(old, new);
            Ok(())
        };
        replace(ADDRESS, &format!("http://{}", server.address))?;
        let mut listen = None;
        for address in self.addresses {
            let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            replace(address, &free.to_string())?;
            listen.get_or_insert(free);
        }
        for (path, below) in self.paths {
            replace(path, &format!("{}/{below}", folder.display()))?;
        }
        let config = folder.join(self.file);
        fs::write(&config, text)?;

        let log = File::create(folder.join("client.log"))?;
        let mut command = Command::new(find(self.program).context("the client is not built")?);
        command.args((self.arguments)(&config, listen.context("no address")?)).env("SANDUR_TOKEN", &token);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut running = Running(command.spawn().context("cannot start the client")?);
        let outcome = self.wait(server.address, &token, &mut running);
        let said = || fs::read_to_string(folder.join("client.log")).unwrap_or_default();
        outcome.with_context(|| format!("the client said:\n{}", said()))
    }

    /// Waits until what the client sent is found.
    fn wait(&self, server: SocketAddr, token: &str, client: &mut Running) -> Result<()> {
        let logql = self.logql.map(|query| query.replace("LINES", &LINES.to_string()));
        let logs = logql.map(|query| ("log lines", "/loki/api/v1/query", query));
        let samples = Some(("samples", "/api/v1/query", self.promql.to_owned()));
        for (what, path, query) in logs.into_iter().chain(samples) {
            let began = Instant::now();
            let path = format!("{path}?query={}", encode(&query));
            if http::get(server, &path, PATIENCE)?.status != 401 {
                bail!("the server does not require credentials");
            }
            while !is_found(server, &path, token)? {
                if let Some(status) = client.0.try_wait()? {
                    bail!("the client ended with {status}");
                }
                if began.elapsed() > PATIENCE {
                    bail!("no {what} arrived that {query} finds");
                }
                sleep(LOOK_EVERY);
            }
            println!("{}: {what} arrived under the tenant", self.file);
        }
        Ok(())
    }
}

fn is_found(server: SocketAddr, path: &str, token: &str) -> Result<bool> {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("X-Scope-OrgID", "team-a")];
    let answer = http::get_with(server, path, &headers, PATIENCE)?.json()?;
    Ok(answer["data"]["result"].as_array().is_some_and(|result| !result.is_empty()))
}

/// A token, and the lines of `auth.toml` for it.
fn credentials(program: &Path) -> Result<(String, String)> {
    let words = ["token", "create", "--tenant", "team-a", "--scopes", "read,write", "--name", "agents"];
    let text = output(Command::new(program).args(words))?;
    let at = text.find("[tokens.").context("no lines for auth.toml")?;
    let token = text.split_whitespace().find(|word| word.starts_with("sandur_")).context("no token")?;
    Ok((token.to_owned(), text[at..].to_owned()))
}

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_the_name_of_a_file() {
        let page = "Text\n\n```yaml\n# a.yaml\nb: 1\n```\n\n```\nnone\n```\n\n```alloy\n// c.alloy\nd\n```\n";
        let expected = [("a.yaml", "# a.yaml\nb: 1\n"), ("c.alloy", "// c.alloy\nd\n")];
        assert_eq!(blocks(page), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn every_configuration_of_the_page_is_run_or_listed() {
        let page = fs::read_to_string(root().join("docs/clients.md")).unwrap();
        let mut names: Vec<String> = blocks(&page).into_iter().map(|(name, _)| name).collect();
        names.sort();
        let mut known: Vec<&str> =
            CLIENTS.iter().map(|client| client.file).chain(NOT_RUN.iter().map(|(file, _)| *file)).collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}

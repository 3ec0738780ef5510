//! Starts what the systemd unit starts, in the image's root file system: its command line, with the files
//! of `LoadCredential=` and the variables of `Environment=` that are comments in it.
//!
//! systemd itself is not started. Its part is done here: the user of the service can read only copies of
//! the credentials, in a folder of their own. The server must answer over TLS only, and require a token.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::image::{Image, LOOK_EVERY, PATIENCE, Running, USER, now_ns};
use crate::http;
use crate::process::{find, output, root};

/// Where the image has the folder of the credentials (`%d`).
const CREDENTIALS: &str = "/data/credentials";

/// Starts the unit's command and uses it.
pub fn run(image: &Image) -> Result<()> {
    if find("openssl").is_none() || find("curl").is_none() {
        println!("SKIPPED: the command of the systemd unit is not started: this needs openssl and curl");
        return Ok(());
    }
    let unit = fs::read_to_string(root().join("packaging/sandur.service"))?;
    let unit = Unit::parse(&unit)?;
    let token = image.add_credentials()?;
    let certificate = make_certificate(image)?;
    let folder = image.data.join("credentials");
    for (name, source) in &unit.credentials {
        let content = match name.as_str() {
            "auth.toml" => fs::read(image.root.join("etc/sandur/auth.toml"))?,
            "tls.crt" => fs::read(&certificate)?,
            "tls.key" => fs::read(certificate.with_extension("key"))?,
            other => bail!("the unit passes {other} of {source}, which this test does not have"),
        };
        fs::create_dir_all(&folder)?;
        let file = folder.join(name);
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400))?;
        chown(&file, Some(USER), Some(USER))?;
    }
    chown(&folder, Some(USER), Some(USER))?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = format!("store = \"/data/unit\"\nlisten = \"{address}\"\n");
    fs::write(image.root.join("etc/sandur/sandur.toml"), config)?;
    let process = image.spawn(&unit.command, &unit.variables)?;
    let mut running = Running { address, process };
    let client = Client { address, certificate, token };
    client.wait(&mut running.process).with_context(|| image.log())?;
    client.use_it().with_context(|| image.log())?;
    running.terminate()?;
    println!(
        "the command of the systemd unit starts with its credentials, and answers over TLS with a token"
    );
    Ok(())
}

/// What the unit says.
struct Unit {
    command: Vec<String>,
    /// Names of credentials, and the files of root from which systemd copies them.
    credentials: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Unit {
    /// Parses the unit with its lines about credentials as if they were no comments.
    fn parse(text: &str) -> Result<Self> {
        let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches('#')).collect();
        let values = |key: &'static str| lines.iter().filter_map(move |line| line.strip_prefix(key));
        let command = values("ExecStart=").next().context("the unit has no ExecStart")?;
        let credentials = values("LoadCredential=").map(|value| {
            let (name, source) = value.split_once(':').context("a credential without a file")?;
            Ok((name.to_owned(), source.to_owned()))
        });
        let variables = values("Environment=").flat_map(|value| value.split(' ')).map(|pair| {
            let (name, value) = pair.split_once('=').context("a variable without a value")?;
            Ok((name.to_owned(), value.replace("%d", CREDENTIALS)))
        });
        let credentials: Vec<(String, String)> = credentials.collect::<Result<_>>()?;
        if credentials.is_empty() {
            bail!("the unit passes no credentials");
        }
        let command = command.split(' ').map(str::to_owned).collect();
        Ok(Self { command, credentials, variables: variables.collect::<Result<_>>()? })
    }
}

/// Makes a certificate for loopback; returns its file. The key is beside it.
fn make_certificate(image: &Image) -> Result<PathBuf> {
    let file = image.log.with_file_name("tls.crt");
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "2", "-subj", "/CN=sandur", "-addext", "subjectAltName=IP:127.0.0.1"]);
    output(command.arg("-keyout").arg(file.with_extension("key")).arg("-out").arg(&file))?;
    Ok(file)
}

struct Client {
    address: SocketAddr,
    certificate: PathBuf,
    token: String,
}

impl Client {
    /// Sends a request with curl; returns the body and, in the last line, the status.
    fn ask(&self, path: &str, more: &[&str]) -> Result<String> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code}"]);
        command.arg("--cacert").arg(&self.certificate).args(more);
        output(command.arg(format!("https://{}{path}", self.address)))
    }

    fn wait(&self, process: &mut Child) -> Result<()> {
        let began = Instant::now();
        while !self.ask("/ready", &[]).is_ok_and(|answer| answer.ends_with("\n200")) {
            if process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("the server of the unit is not ready");
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn use_it(&self) -> Result<()> {
        let line = format!("written at {}", now_ns());
        let body = serde_json::json!({"streams": [{"stream": {"app": "unit"},
            "values": [[now_ns().to_string(), line]]}]})
        .to_string();
        let push = ["--header", "Content-Type: application/json", "--data", &body];
        let bearer = format!("Authorization: Bearer {}", self.token);
        for (more, wanted) in [(&[][..], "\n401"), (&["--header", &bearer], "\n204")] {
            let answer = self.ask("/loki/api/v1/push", &[&push, more].concat())?;
            if !answer.ends_with(wanted) {
                bail!("a push over TLS: {answer} instead of {}", wanted.trim());
            }
        }
        let query = ["--header", &bearer, "--get", "--data-urlencode", "query={app=\"unit\"}"];
        let answer = self.ask("/loki/api/v1/query_range", &query)?;
        if !answer.contains(&line) {
            bail!("the line is not found over TLS: {answer}");
        }
        if http::get(self.address, "/ready", PATIENCE).is_ok_and(|answer| answer.status == 200) {
            bail!("the server answers without TLS");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_names_its_credentials_and_variables() {
        let text = fs::read_to_string(root().join("packaging/sandur.service")).unwrap();
        let unit = Unit::parse(&text).unwrap();
        assert_eq!(unit.command[..2], ["/usr/bin/sandur", "serve"]);
        assert_eq!(unit.credentials.len(), unit.variables.len());
        let prefix = format!("{CREDENTIALS}/");
        for (name, value) in &unit.variables {
            let file = value.strip_prefix(&prefix).unwrap();
            assert!(unit.credentials.iter().any(|(credential, _)| credential == file), "{name}={value}");
        }
        assert!(Unit::parse("ExecStart=/bin/true\n").is_err());
    }
}

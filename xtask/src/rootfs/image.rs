//! The root file system of the image, and programs in it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::http::{self, encode};
use crate::process::{output, root, run as run_command};

pub const USER: u32 = 65532;
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Mounts the file system ($1) read-only, with the folder of the data ($2) in it, and runs the rest.
const CONTAIN: &str = "set -eu
mount --bind \"$1\" \"$1\"
mount -o remount,bind,ro \"$1\"
mount --bind \"$2\" \"$1/data\"
mount --rbind /proc \"$1/proc\"
image=$1
shift 2
exec chroot --userspec=65532:65532 --groups= \"$image\" \"$@\"";

pub fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos())
}

/// The assembled file system.
pub struct Image {
    pub root: PathBuf,
    /// What is mounted at `/data`.
    pub data: PathBuf,
    pub log: PathBuf,
}

impl Image {
    pub fn assemble(program: &Path) -> Result<Self> {
        let folder = root().join("target/rootfs");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        chown(&data, Some(USER), Some(USER))?;
        let image = folder.join("image");
        run_command(Command::new(root().join("packaging/rootfs.sh")).arg(program).arg(&image))?;
        Ok(Self { root: image, data, log: folder.join("log") })
    }

    /// A command in the image.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", CONTAIN, "sh"]).arg(&self.root).arg(&self.data);
        command.args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        command
    }

    /// Makes a token with the program of the image, and mounts its `auth.toml` as a secret is mounted.
    pub fn add_credentials(&self) -> Result<String> {
        let words = "/usr/bin/sandur token create --tenant team-a --scopes read,write --name agents";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let text = output(&mut self.command(&words))?;
        let at = text.find("[tokens.").context("no lines for auth.toml")?;
        let file = self.root.join("etc/sandur/auth.toml");
        fs::write(&file, &text[at..])?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o440))?;
        chown(&file, Some(0), Some(USER))?;
        let token = text.split_whitespace().find(|word| word.starts_with("sandur_")).context("no token")?;
        Ok(token.to_owned())
    }

    /// Starts the command of the Containerfile, on a free port of loopback.
    pub fn start(&self) -> Result<Running> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let containerfile = fs::read_to_string(root().join("packaging/Containerfile"))?;
        let list = |word: &str| -> Result<Vec<String>> {
            let line =
                containerfile.lines().find_map(|line| line.strip_prefix(word)).context("no such line")?;
            Ok(serde_json::from_str(line)?)
        };
        let mut words = list("ENTRYPOINT ")?;
        words.extend(list("CMD ")?);
        let listen = words.iter_mut().find(|word| *word == "0.0.0.0:3100").context("no address")?;
        *listen = address.to_string();
        let mut running = Running { address, process: self.spawn(&words, &[])? };
        let began = Instant::now();
        while !http::get(address, "/ready", PATIENCE).is_ok_and(|answer| answer.status == 200) {
            if running.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("the server is not ready: {}", self.log());
            }
            sleep(LOOK_EVERY);
        }
        Ok(running)
    }

    /// Starts a command in the image, with variables; its output is appended to the log.
    pub fn spawn(&self, words: &[String], variables: &[(String, String)]) -> Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.command(words);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Ok(command.stdout(log.try_clone()?).stderr(log).spawn()?)
    }

    pub fn find(&self, server: SocketAddr, token: &str, line: &str) -> Result<()> {
        let path = format!("/loki/api/v1/query_range?since=1h&query={}", encode("{app=\"image\"}"));
        let bearer = format!("Bearer {token}");
        let answer = http::get_with(server, &path, &[("Authorization", &bearer)], PATIENCE)?.json()?;
        let found = answer["data"]["result"][0]["values"][0][1].as_str();
        if found != Some(line) {
            bail!("the line is not found: {answer}: {}", self.log());
        }
        Ok(())
    }

    pub fn refuses_other_directories(&self) -> Result<()> {
        let words = "/usr/bin/sandur serve --store /elsewhere --listen 127.0.0.1:0";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let output = self.command(&words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains("/elsewhere") || !said.contains("ead-only") {
            bail!("a store beside /data must be refused: {said}");
        }
        println!("a store beside /data is refused, because the root is read-only");
        Ok(())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A server that is killed when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub process: Child,
}

impl Running {
    /// Sends SIGTERM and waits for an end with code 0.
    pub fn terminate(&mut self) -> Result<()> {
        let pid = self.process.id().to_string();
        run_command(Command::new("kill").args(["-s", "TERM", &pid]))?;
        let began = Instant::now();
        loop {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server ended with {status}"),
                None if began.elapsed() > PATIENCE => bail!("the server does not stop"),
                None => sleep(LOOK_EVERY),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

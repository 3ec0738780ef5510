//! A memcached server in a separate process, which runs the test program itself.

#![allow(clippy::unwrap_used)] // shared by tests
#![allow(clippy::disallowed_methods)] // real processes live in real time

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandur_runtime::Env;
use sandur_runtime::environment::variable;

const ARGUMENTS: &str = "SANDUR_CACHE_TEST_ARGUMENTS";

/// A running server and its only connection.
pub struct Server {
    pub process: Child,
    pub stream: BufReader<UnixStream>,
}

/// Runs a server with the arguments from [`command`], until it is stopped or killed.
#[test]
#[ignore = "serves until it is stopped or killed, for other tests"]
fn serve() {
    let arguments: Vec<String> = variable(ARGUMENTS).unwrap().split(' ').map(str::to_owned).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let env = Env::system(1);
    let served = sandur_memcached::run(&env, &arguments, Arc::new(|line: &str| eprintln!("{line}")));
    runtime.block_on(served).unwrap();
}

/// Returns the command that starts this program as a server.
pub fn command(arguments: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "served::serve", "--ignored", "--nocapture"]).env(ARGUMENTS, arguments);
    command.stdout(Stdio::null());
    command
}

impl Server {
    /// Waits until `process` listens on `socket`. `patience` bounds that wait and the wait for each
    /// answer.
    pub fn connect(process: Child, socket: &Path, patience: Duration) -> Self {
        let began = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(began.elapsed() < patience, "no server: {error}"),
            }
            std::thread::yield_now();
        };
        stream.set_read_timeout(Some(patience)).unwrap();
        Self { process, stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer in time");
        line.trim_end().to_owned()
    }

    /// Kills the server at any point of its work. Returns its exit status, since it may have ended
    /// before.
    pub fn kill(mut self) -> ExitStatus {
        self.process.kill().unwrap(); // SIGKILL
        self.process.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process has ended, or a test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

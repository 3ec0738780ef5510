//! HAProxy with the configuration of `packaging/haproxy.cfg`, in which only addresses and the path of the
//! socket are replaced.
//!
//! Invariant: the process does not outlive its value.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{bound_to_us, find, root};

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Columns of its table of statistics: proxy, server, current sessions, status.
const COLUMNS: [usize; 4] = [0, 1, 4, 17];

pub struct HaProxy {
    /// The address of the frontend of HTTP.
    pub address: SocketAddr,
    process: Child,
    socket: PathBuf,
}

/// The program, which Debian installs outside of the usual PATH of users.
pub fn program() -> Option<PathBuf> {
    find("haproxy").or_else(|| Some(PathBuf::from("/usr/sbin/haproxy")).filter(|path| path.exists()))
}

/// A server in the statistics.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    proxy: String,
    server: String,
    sessions: usize,
    is_up: bool,
}

impl HaProxy {
    pub fn start(nodes: &[SocketAddr], folder: &Path) -> Result<Self> {
        let program = program().context("haproxy is missing (Debian: apt-get install haproxy)")?;
        let text = fs::read_to_string(root().join("packaging/haproxy.cfg"))?;
        let socket = folder.join("haproxy.sock");
        let (text, address) = configure(&text, nodes, &socket)?;
        let file = folder.join("haproxy.cfg");
        fs::write(&file, text)?;
        let log = File::create(folder.join("haproxy.log"))?;
        let mut command = bound_to_us(&program);
        command.arg("-db").arg("-f").arg(&file).stdin(Stdio::null());
        let process = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut haproxy = Self { address, process, socket };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if haproxy.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("HAProxy does not start: {}", folder.join("haproxy.log").display());
            }
            sleep(LOOK_EVERY);
        }
        Ok(haproxy)
    }

    /// Whether exactly the wanted nodes are used by every backend.
    pub fn sees(&self, wanted: &[bool]) -> Result<bool> {
        let rows = self.rows()?;
        if rows.len() < wanted.len() {
            bail!("HAProxy has only {} servers", rows.len());
        }
        Ok(rows.iter().all(|row| {
            let node = row.server.strip_prefix("node-").and_then(|number| number.parse::<usize>().ok());
            node.and_then(|number| wanted.get(number - 1)).is_some_and(|wanted| *wanted == row.is_up)
        }))
    }

    pub fn open_pushes(&self, node: usize) -> Result<usize> {
        let name = format!("node-{}", node + 1);
        let rows = self.rows()?;
        let row = rows.iter().find(|row| row.proxy == "push" && row.server == name);
        Ok(row.context("HAProxy has no such server")?.sessions)
    }

    fn rows(&self) -> Result<Vec<Row>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"show stat\n")?;
        let mut table = String::new();
        stream.read_to_string(&mut table)?;
        Ok(servers(&table))
    }
}

/// The servers of a table of statistics.
fn servers(table: &str) -> Vec<Row> {
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let [proxy, server, sessions, status] = COLUMNS.map(|column| cells.get(column).copied());
        let row = Row {
            proxy: proxy?.to_owned(),
            server: server?.to_owned(),
            sessions: sessions?.parse().ok()?,
            is_up: status?.starts_with("UP"),
        };
        row.server.starts_with("node-").then_some(row)
    });
    rows.collect()
}

/// The configuration for these nodes, and the address of HTTP.
fn configure(text: &str, nodes: &[SocketAddr], socket: &Path) -> Result<(String, SocketAddr)> {
    let mut text = text.replace("/run/haproxy/admin.sock", &socket.display().to_string());
    let mut http = None;
    for port in ["3100", "4317", "2003"] {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let bind = format!("bind :{port}\n");
        if text.matches(&bind).count() != 1 {
            bail!("packaging/haproxy.cfg must have one '{}'", bind.trim());
        }
        text = text.replace(&bind, &format!("bind {free}\n"));
        http.get_or_insert(free);
    }
    for (number, node) in (1..).zip(nodes) {
        text = text.replace(&format!("10.0.0.{number}:3100"), &node.to_string());
        text = text.replace(
            &format!("10.0.0.{number}:2003 port 3100"),
            &format!("{}:2003 port {}", node.ip(), node.port()),
        );
    }
    match text.contains("10.0.0.") {
        true => bail!("packaging/haproxy.cfg has more than {} servers", nodes.len()),
        false => Ok((text, http.context("no address")?)),
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_those_of_backends() {
        let table = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,a,b,c,d,e,f,g,status\n\
                     http,FRONTEND,,,3,,,,,,,,,,,,,OPEN\n\
                     push,node-1,0,0,2,,,,,,,,,,,,,UP\n\
                     push,node-2,0,0,0,,,,,,,,,,,,,DOWN 1/2\n\
                     push,BACKEND,0,0,2,,,,,,,,,,,,,UP\n";
        let row = |server: &str, sessions, is_up| Row {
            proxy: "push".to_owned(),
            server: server.to_owned(),
            sessions,
            is_up,
        };
        assert_eq!(servers(table), [row("node-1", 2, true), row("node-2", 0, false)]);
    }

    /// Routes that change data but are no pushes.
    const NO_PUSHES: &[&str] = &["/loki/api/v1/rules/", "/api/prom/rules/"];

    /// The paths of the reference page that need a scope, with a text for each parameter.
    fn paths(page: &str, scope: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for section in
            page.split("\n### ").skip(1).filter(|s| s.contains(&format!("Needs: the scope `{scope}`")))
        {
            let heading = section.lines().next().unwrap_or_default();
            paths.extend(heading.split_once(" /").map(|(_, path)| format!("/{path}")));
            let also = section.lines().find_map(|line| line.strip_prefix("Also: ")).unwrap_or_default();
            paths.extend(also.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        let filled = paths.iter().map(|path| path.replace("{*group}", "job/x").replace("{namespace}", "x"));
        filled.filter(|path| !NO_PUSHES.iter().any(|other| path.starts_with(other))).collect()
    }

    /// Whether the lists of the configuration select a path.
    fn is_push(config: &str, path: &str) -> bool {
        let lists = config.lines().filter_map(|line| line.trim().strip_prefix("acl is_push "));
        lists.filter_map(|list| list.split_once(' ')).any(|(kind, values)| {
            values.split(' ').any(|value| match kind {
                "path_beg" => path.starts_with(value),
                "path_end" => path.ends_with(value),
                "path_sub" => path.contains(value),
                other => panic!("'{other}' is not known to this test"),
            })
        })
    }

    #[test]
    fn pushes_and_only_pushes_go_to_nodes_that_take_pushes() {
        let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        let (config, page) = (read("packaging/haproxy.cfg"), read("docs/reference/http-api.md"));
        let pushes = paths(&page, "write");
        assert!(pushes.len() > 15, "{pushes:?}");
        let missed: Vec<&String> = pushes.iter().filter(|path| !is_push(&config, path)).collect();
        assert!(missed.is_empty(), "these pushes go to nodes that answer queries: {missed:?}");
        let reads = paths(&page, "read");
        // GET of events is a query, and the method tells it from a push.
        let wrong: Vec<&String> =
            reads.iter().filter(|path| is_push(&config, path) && !pushes.contains(path)).collect();
        assert!(
            reads.len() > 40 && wrong.is_empty(),
            "these queries go to nodes that take pushes: {wrong:?}"
        );
    }
}

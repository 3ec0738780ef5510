//! Viewers of a dashboard: each loads all panels, over as many connections as a browser opens, and again at
//! each refresh.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use sandur_runtime::Env;

use super::delivery::{Place, Waiting};
use super::dialect::Dialect;
use super::panels::Panel;
use super::requests::path;
use crate::http::Connection;

/// Number of connections of a viewer: browsers open six to a host.
const CONNECTIONS: usize = 6;

/// The answer of a panel.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The title of the panel.
    pub(super) panel: &'static str,
    /// Whether it was for a variable.
    pub(super) is_variable: bool,
    /// From the request to the last byte, milliseconds.
    pub(super) ms: f64,
    /// Bytes of the body.
    pub(super) bytes: usize,
    /// Why it is not an answer.
    pub(super) failure: Option<String>,
}

/// What viewers saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Answers of all panels.
    pub(super) answers: Vec<Answered>,
    /// Times of whole dashboards, milliseconds.
    pub(super) loads: Vec<f64>,
    /// Refreshes that were due while the previous one was still loading.
    pub(super) skipped: u64,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.loads.extend(other.loads);
        self.skipped += other.skipped;
    }
}

/// The viewers of a server.
pub(super) struct Viewers<'a> {
    /// The clock.
    pub(super) env: &'a Env,
    /// The server; paths of requests follow its path.
    pub(super) place: &'a Place,
    /// Its protocol.
    pub(super) dialect: Dialect,
    /// Whether ranges are multiples of their step.
    pub(super) aligned: bool,
    /// Time between two refreshes.
    pub(super) refresh: Duration,
    /// How long viewers watch.
    pub(super) length: Duration,
}

impl Viewers<'_> {
    /// Watches the panels of each viewer. Their refreshes are spread evenly.
    pub(super) fn watch(&self, dashboards: &[Vec<Panel>]) -> Result<Seen> {
        let (seen, begun) = (Mutex::new(Seen::default()), self.env.monotonic());
        let waiting: Vec<Waiting> =
            dashboards.iter().map(|_| Waiting::new(self.env)).collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            for (number, panels) in dashboards.iter().enumerate() {
                let (seen, waiting) = (&seen, &waiting[number]);
                let first = begun + self.refresh * number as u32 / dashboards.len() as u32;
                scope.spawn(move || {
                    let own = self.view(panels, waiting, (first, begun + self.length));
                    seen.lock().unwrap_or_else(PoisonError::into_inner).add(own);
                });
            }
        });
        Ok(seen.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// One viewer: loads the panels at each refresh from the first one to the end.
    fn view(&self, panels: &[Panel], waiting: &Waiting, (first, end): (Duration, Duration)) -> Seen {
        let mut seen = Seen::default();
        let mut connections: Vec<Connection> =
            (0..CONNECTIONS).map(|_| Connection::new(&self.place.address)).collect();
        let mut due = first;
        while due < end {
            waiting.pause(due.saturating_sub(self.env.monotonic()));
            let begun = self.env.monotonic();
            seen.answers.extend(self.load(panels, &mut connections));
            seen.loads.push((self.env.monotonic() - begun).as_secs_f64() * 1e3);
            due += self.refresh;
            while due < self.env.monotonic().min(end) {
                due += self.refresh;
                seen.skipped += 1;
            }
        }
        seen
    }

    /// Loads all panels: each connection takes the next one when it is free.
    fn load(&self, panels: &[Panel], connections: &mut [Connection]) -> Vec<Answered> {
        let (next, now_ms) = (AtomicUsize::new(0), self.env.now_ns().div_euclid(1_000_000));
        let answers = Mutex::new(Vec::with_capacity(panels.len()));
        std::thread::scope(|scope| {
            for connection in connections {
                let (next, answers) = (&next, &answers);
                scope.spawn(move || {
                    while let Some(panel) = panels.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let answered = self.ask(panel, now_ms, connection);
                        answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
                    }
                });
            }
        });
        answers.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, panel: &Panel, now_ms: i64, connection: &mut Connection) -> Answered {
        let target = format!("{}{}", self.place.path, path(self.dialect, panel, now_ms, self.aligned));
        let begun = self.env.monotonic();
        let result = connection.get(&target);
        let ms = (self.env.monotonic() - begun).as_secs_f64() * 1e3;
        let (bytes, failure) = match result {
            Ok(answer) if answer.status == 200 => (answer.body.len(), None),
            Ok(answer) => (answer.body.len(), Some(format!("{} {}", answer.status, answer.text()))),
            Err(error) => (0, Some(error.to_string())),
        };
        Answered { panel: panel.name, is_variable: panel.is_variable(), ms, bytes, failure }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::super::panels::panels;
    use super::*;

    /// Answers requests of a connection until it is closed: 200, or 500 for the values of a label.
    fn serve(mut socket: TcpStream, paths: &Mutex<Vec<String>>) {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let (mut first, mut line) = (String::new(), String::new());
        while reader.read_line(&mut first).unwrap_or(0) > 0 {
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            line.clear();
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let status = if path.contains("/values") { "500 Broken" } else { "200 OK" };
            paths.lock().unwrap().push(path);
            write!(socket, "HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbody").unwrap();
            first.clear();
        }
    }

    #[test]
    fn a_viewer_asks_for_all_panels_once_at_a_refresh_and_failures_are_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place::of(&format!("http://{}/prefix", listener.local_addr().unwrap()));
        let (paths, env) = (Mutex::new(Vec::new()), Env::system(1));
        let dashboards = [panels(Dialect::Prometheus, 0, ""), panels(Dialect::Prometheus, 1, "")];
        let seen = std::thread::scope(|scope| {
            for _ in 0..2 * CONNECTIONS {
                let (socket, paths) = (listener.try_clone().unwrap(), &paths);
                scope.spawn(move || serve(socket.accept().unwrap().0, paths));
            }
            // The refresh is longer than the measurement, so each viewer loads once.
            let refresh = Duration::from_millis(20);
            let length = Duration::from_millis(15);
            let dialect = Dialect::Prometheus;
            let viewers = Viewers { env: &env, place: &place, dialect, aligned: true, refresh, length };
            let seen = viewers.watch(&dashboards).unwrap();
            // Connections that carried no request are not open yet.
            let used = listener.local_addr().unwrap();
            (0..2 * CONNECTIONS).for_each(|_| drop(TcpStream::connect(used)));
            seen
        });
        let paths = paths.into_inner().unwrap();
        assert_eq!((seen.loads.len(), seen.answers.len(), paths.len()), (2, 46, 46));
        assert!(paths.iter().all(|path| path.starts_with("/prefix/api/v1/")), "{paths:?}");
        let failed: Vec<_> = seen.answers.iter().filter(|answer| answer.failure.is_some()).collect();
        assert_eq!((failed.len(), failed[0].failure.as_deref()), (4, Some("500 body")));
        assert!(failed.iter().all(|answer| answer.is_variable));
    }
}

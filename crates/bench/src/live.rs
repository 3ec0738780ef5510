//! Sends the logs of the shop in real time: every second, the lines of the previous second are pushed to
//! a server.

use std::io;
use std::time::Duration;

use sandur_model::SECOND_NS;
use sandur_runtime::Env;

use crate::http::Connection;
use crate::push_body;
use crate::services::{Services, Stream};

/// The path of Loki's push endpoint.
pub(crate) const PUSH_PATH: &str = "/loki/api/v1/push";

/// The destination and the rate.
pub struct Target<'a> {
    /// `host:port` or a URL.
    pub address: &'a str,
    /// The value of `X-Scope-OrgID`, if the server requires it.
    pub tenant: Option<&'a str>,
    /// Customers' requests per second; each has about two lines.
    pub requests_per_second: f64,
}

/// The result of one second.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Number of lines that were sent.
    pub lines: u64,
    /// Why they were not accepted. The stream continues.
    pub failure: Option<String>,
}

/// Pushes second by second until `heard` returns false. Seconds that were missed because the server was
/// slow are sent late.
pub async fn stream(
    env: &Env,
    services: &Services,
    target: Target<'_>,
    mut heard: impl FnMut(Pushed) -> bool,
) {
    let mut connection = Connection::new(target.address);
    let mut next = env.now_ns().div_euclid(SECOND_NS);
    loop {
        let end_of_second = (next + 1) * SECOND_NS;
        let wait = end_of_second - env.now_ns();
        if wait > 0 {
            env.sleep(Duration::from_nanos(wait as u64)).await;
        }
        let streams = services.between(next, next + 1, target.requests_per_second);
        let lines = streams.iter().map(|s| s.lines.len() as u64).sum();
        let failure = push(&mut connection, target.tenant, &streams).err().map(|error| error.to_string());
        if !heard(Pushed { lines, failure }) {
            return;
        }
        next += 1;
    }
}

fn push(connection: &mut Connection, tenant: Option<&str>, streams: &[Stream]) -> io::Result<()> {
    let tenant = tenant.map(|tenant| format!("X-Scope-OrgID: {tenant}"));
    let mut headers = vec!["Content-Type: application/x-protobuf"];
    headers.extend(tenant.as_deref());
    let answer = connection.post(PUSH_PATH, &headers, &push_body::snappy(streams))?;
    if answer.status / 100 != 2 {
        return Err(io::Error::other(format!("{}: {}", answer.status, answer.text())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that receives one push and answers it.
    fn serve_once(listener: &TcpListener, answer: &str) -> Vec<u8> {
        let (mut socket, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        socket.write_all(answer.as_bytes()).unwrap();
        body
    }

    #[test]
    fn seconds_are_pushed_in_order_and_failures_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let first = serve_once(&listener, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
                let second = serve_once(&listener, "HTTP/1.1 429 Slow\r\nContent-Length: 4\r\n\r\nslow");
                [first, second]
            });
            let mut heard = Vec::new();
            runtime.block_on(async {
                let start = 1_795_176_000 * SECOND_NS;
                let env = Env::simulated(1, start);
                let services = Services::new(1, 1);
                let target = Target { address: &address, tenant: Some("t"), requests_per_second: 20.0 };
                stream(&env, &services, target, |pushed| {
                    heard.push(pushed);
                    heard.len() < 2
                })
                .await;
            });
            let bodies = server.join().unwrap();
            assert_eq!(heard[0].failure, None);
            assert_eq!(heard[1].failure.as_deref(), Some("429: slow"));
            let services = Services::new(1, 1);
            for (n, body) in bodies.iter().enumerate() {
                let second = 1_795_176_000 + n as i64;
                assert_eq!(*body, push_body::snappy(&services.between(second, second + 1, 20.0)));
                assert!(heard[n].lines > 10);
            }
        });
    }
}

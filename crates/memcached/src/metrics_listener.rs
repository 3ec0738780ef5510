//! `--metrics-listen`: the metrics of the cache over HTTP, for Prometheus and `sandur cache advise`.
//!
//! It answers `GET /metrics` and closes the connection. It shows figures, and neither keys nor values.
//! Connections, the bytes of a request and the time of an exchange are bounded.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_runtime::{Env, Task};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::error::Error;
use super::log::Log;
use super::server::Server;

/// Maximum number of connections at a time; others wait.
const CONNECTIONS_MAX: usize = 16;
/// Maximum size of the head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum time of a request with its answer.
const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Listens on the address of the option, if it is given, until the task is dropped.
pub async fn start(server: &Arc<Server>, env: &Env, log: &dyn Log) -> Result<Option<Task<()>>, Error> {
    let Some(address) = server.settings.metrics_listen.clone() else { return Ok(None) };
    let listener = TcpListener::bind(&address).await;
    let listener = listener.map_err(|error| Error::Listen { address: address.clone(), error })?;
    if let Ok(bound) = listener.local_addr() {
        log.say(&format!("metrics at http://{bound}/metrics"));
    }
    let mut registry = Registry::default();
    server.cache.register(&mut registry);
    Ok(Some(env.spawn("metrics", accept(env.clone(), listener, Arc::new(registry)))))
}

async fn accept(env: Env, listener: TcpListener, registry: Arc<Registry>) {
    let mut exchanges: Vec<Task<()>> = Vec::new();
    loop {
        exchanges.retain(|exchange| !exchange.is_finished());
        if exchanges.len() >= CONNECTIONS_MAX {
            // The oldest ends within the time of an exchange.
            let _ = exchanges.remove(0).join().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let (clock, registry) = (env.clone(), Arc::clone(&registry));
                exchanges.push(env.spawn("metrics request", async move {
                    // A client that is gone or too slow gets no answer.
                    let _ = clock.timeout(EXCHANGE_TIME_MAX, exchange(stream, &registry)).await;
                }));
            }
            Err(_) => env.sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn exchange(mut stream: TcpStream, registry: &Registry) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    let (status, kind, body) = answer(head.as_deref(), registry);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// The head of a request; `None` if it is too long.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (mut head, mut piece) = (Vec::new(), [0; 1_024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&piece[..read]);
        if head.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// Status, content type and body of an answer.
fn answer(head: Option<&str>, registry: &Registry) -> (&'static str, &'static str, String) {
    let Some(head) = head else {
        return (
            "431 Request Header Fields Too Large",
            PLAIN,
            "the request is longer than 8 KiB\n".to_owned(),
        );
    };
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (method, target.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics") => {
            let mut body = String::new();
            match prometheus_client::encoding::text::encode(&mut body, registry) {
                Ok(()) => ("200 OK", OPEN_METRICS, body),
                Err(_) => ("500 Internal Server Error", PLAIN, "the metrics cannot be written\n".to_owned()),
            }
        }
        (_, "/metrics") => ("405 Method Not Allowed", PLAIN, "use GET\n".to_owned()),
        _ => ("404 Not Found", PLAIN, "only /metrics is served here\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listening() -> (std::net::SocketAddr, Task<()>) {
        let env = Env::system(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut registry = Registry::default();
        let gauge = prometheus_client::metrics::gauge::Gauge::<i64>::default();
        registry.register("example", "An example", gauge);
        (address, env.spawn("metrics", accept(env.clone(), listener, Arc::new(registry))))
    }

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_are_served_and_nothing_else() {
        let (address, _task) = listening().await;
        for (request, status, text) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK", "example 0\n# EOF"),
            ("GET /metrics?a=b HTTP/1.1\r\n\r\n", "200 OK", "example 0"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 ", "use GET"),
            ("GET / HTTP/1.1\r\n\r\n", "404 ", "only /metrics"),
            ("\r\n\r\n", "404 ", "only /metrics"),
        ] {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(text), "{answer}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(HEAD_BYTES_MAX));
        assert!(ask(address, &long).await.starts_with("HTTP/1.1 431 "));
    }

    /// Clients that connect and never send must not keep others from an answer for longer than the time of
    /// an exchange.
    #[tokio::test]
    async fn silent_clients_do_not_block_others() {
        let (address, _task) = listening().await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX + 4 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

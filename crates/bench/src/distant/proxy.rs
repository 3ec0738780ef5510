//! A proxy that adds latency and errors to an S3 server.
//!
//! There is one thread per connection, which has a connection of its own to the server. Messages are
//! forwarded unchanged, so signatures stay valid. A refused request is read to its end and answered with
//! S3's `SlowDown`.

use std::io::{self, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::faults::ProxyFaults;
use super::message::Head;

const SLOW_DOWN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>SlowDown</Code>\
    <Message>Please reduce your request rate.</Message></Error>";

/// A running proxy. Dropping it stops accepting connections.
pub struct Proxy {
    address: String,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy on a free port for the server at `target` (`host:port`).
    pub fn start(target: &str, faults: Arc<ProxyFaults>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, target) = (Arc::clone(&ended), target.to_owned());
        thread("accept", move || {
            for connection in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (target, faults) = (target.clone(), Arc::clone(&faults));
                let Ok(client) = connection else { continue };
                // If a connection cannot be served it is closed, which clients handle.
                let serve = move || drop(Wire::open(client, &target).and_then(|mut wire| wire.run(&faults)));
                if thread("connection", serve).is_err() {
                    continue;
                }
            }
        })?;
        Ok(Self { address, ended })
    }

    /// Returns `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the accepting thread. If the connection fails, the thread has already ended.
        let _ = TcpStream::connect(&self.address);
    }
}

/// Blocking sockets need threads; the measured server is another process.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(format!("proxy-{name}")).spawn(work).map(drop)
}

#[allow(clippy::disallowed_methods)] // a thread that simulates latency
fn travel(delay: Duration) {
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}

/// A client's connection and the corresponding connection to the server.
struct Wire {
    from_client: BufReader<TcpStream>,
    to_client: BufWriter<TcpStream>,
    from_server: BufReader<TcpStream>,
    to_server: BufWriter<TcpStream>,
}

impl Wire {
    fn open(client: TcpStream, target: &str) -> io::Result<Self> {
        let server = TcpStream::connect(target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Self {
            from_client: BufReader::new(client.try_clone()?),
            to_client: BufWriter::new(client),
            from_server: BufReader::new(server.try_clone()?),
            to_server: BufWriter::new(server),
        })
    }

    /// Forwards requests and responses until either side closes.
    fn run(&mut self, faults: &ProxyFaults) -> io::Result<()> {
        while let Some(request) = Head::read(&mut self.from_client)? {
            let (method, path) = (request.word(0), request.word(1));
            if faults.refuses() {
                self.refuse(&request)?;
                continue;
            }
            let (begun, chain) = (faults.monotonic(), faults.begin(method, path));
            travel(faults.delay(method));
            self.to_server.write_all(&request.bytes)?;
            request.relay(&mut self.from_client, &mut self.to_server)?;
            self.to_server.flush()?;
            let Some(answer) = Head::read(&mut self.from_server)? else { return Ok(()) };
            self.to_client.write_all(&answer.bytes)?;
            let has_body = answer.answers_with_body(method);
            let bytes = if has_body { answer.relay(&mut self.from_server, &mut self.to_client)? } else { 0 };
            // Recorded before the client can have the complete response and send its next request.
            faults.end(chain);
            self.to_client.flush()?;
            faults.answered(method, path, bytes, faults.monotonic() - begun);
            if answer.closes || request.closes {
                return Ok(());
            }
        }
        Ok(())
    }

    fn refuse(&mut self, request: &Head) -> io::Result<()> {
        request.relay(&mut self.from_client, &mut io::sink())?;
        let head = format!(
            "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
            SLOW_DOWN.len()
        );
        self.to_client.write_all(head.as_bytes())?;
        if request.word(0) != "HEAD" {
            self.to_client.write_all(SLOW_DOWN.as_bytes())?;
        }
        self.to_client.flush()
    }
}

#[cfg(test)]
mod tests {
    use sandur_runtime::Env;

    use super::*;
    use crate::http::Connection;

    /// A server that answers every request with its path, until the last client has disconnected.
    fn echo(listener: &TcpListener, connections: usize) {
        for _ in 0..connections {
            let (client, _) = listener.accept().unwrap();
            let mut from = BufReader::new(client.try_clone().unwrap());
            let mut to = client;
            while let Ok(Some(request)) = Head::read(&mut from) {
                request.relay(&mut from, &mut io::sink()).unwrap();
                let body = request.word(1);
                write!(to, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        }
    }

    #[test]
    fn requests_are_forwarded_delayed_counted_and_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        let env = Env::system(1);
        let faults = Arc::new(ProxyFaults::new(env.clone()));
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&listener, 1));
            let proxy = Proxy::start(&target, Arc::clone(&faults)).unwrap();
            let mut client = Connection::new(proxy.address());
            assert_eq!(client.get("/logs/blocks/a?x=1").unwrap().body, b"/logs/blocks/a?x=1");
            faults.set_get_delay(Duration::from_millis(30));
            let asked = env.monotonic();
            assert_eq!(client.get("/logs/catalog/1").unwrap().status, 200);
            assert!(env.monotonic() - asked >= Duration::from_millis(30));
            faults.set_refused_percent(100);
            let refused = client.post("/logs/blocks/b", &[], b"body").unwrap();
            assert!(refused.status == 503 && refused.text().contains("SlowDown"));
            faults.set_refused_percent(0);
            assert_eq!(client.post("/logs/blocks/b", &[], b"body").unwrap().status, 200);
            let counted = faults.counted();
            assert_eq!((counted.block_gets, counted.block_bytes), (1, 18));
            assert_eq!((counted.requests, counted.refused), (4, 1));
        });
    }
}

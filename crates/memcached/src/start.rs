//! Starts a server from a command line, and stops it.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use sandur_runtime::{Env, Shutdown, environment};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::arguments::{Parsed, parse};
use super::datagram::Datagrams;
use super::error::Error;
use super::extstore_options;
use super::listen::{Listeners, accept, register};
use super::log::Log;
use super::memory_file;
use super::message_queue::{Message, MessageQueue};
use super::metrics_listener;
use super::process::{PidFile, change_user, go_to_background, lock_memory, raise_descriptor_limit, spawn};
use super::server::Server;
use super::settings::Settings;
use super::worker::Worker;

/// Environment variable with the file that the ports are written to.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Environment variable by which memcached's test suite makes a large memory limit look almost
/// exhausted.
const MEMORY_TAKEN: &str = "T_MEMD_INITIAL_MALLOC";

/// How long a stop may write the contents of memory to flash.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Runs a server with memcached's command line `arguments` (without the program's name) until SIGINT,
/// SIGTERM, SIGUSR1 or the command `shutdown`.
///
/// Must run on a tokio runtime with I/O enabled, which is used for signals only.
pub async fn run(env: &Env, arguments: &[String], log: Arc<dyn Log>) -> Result<(), Error> {
    let mut settings = match parse(arguments)? {
        Parsed::Print(text) => {
            print!("{text}");
            return Ok(());
        }
        Parsed::Serve(settings) => *settings,
    };
    if settings.test_commands {
        let taken = environment::variable(MEMORY_TAKEN).and_then(|bytes| bytes.parse().ok());
        settings.memory_taken = taken.unwrap_or(0);
    }
    change_user(&settings)?;
    if go_to_background(&settings)? {
        return Ok(());
    }
    log.set_verbosity(settings.verbosity);
    note_ignored(&settings, &*log);
    let most = raise_descriptor_limit(settings.connections_max);
    if most < settings.connections_max {
        let wanted = std::mem::replace(&mut settings.connections_max, most);
        log.say(&format!(
            "-c {wanted} is lowered to {most} because of the limit of open files; raise that limit \
             (ulimit -n, LimitNOFILE)"
        ));
    }
    if settings.lock_memory
        && let Err(error) = lock_memory()
    {
        log.say(&format!("-k has no effect, memory cannot be locked: {error}"));
    }
    let pid_file = settings.pid_file.clone();
    // a signal that arrives while the cache is opened must not interrupt it
    let signals = Signals::hear()?;
    let running = Running::start(env.clone(), settings, Arc::clone(&log))?;
    running.said.iter().for_each(|line| log.say(line));
    note_open_addresses(&running, &*log);
    let metrics = metrics_listener::start(&running.server, env, &*log).await;
    let started = metrics.and_then(|metrics| {
        let pid_file = pid_file.as_deref().map(PidFile::write).transpose()?;
        Ok((pid_file, metrics))
    });
    match &started {
        Ok(_) => wait(&running.server, signals, &*log).await,
        // The data in the files is kept for the next start.
        Err(_) => running.server.graceful.store(true, Ordering::Relaxed),
    }
    running.stop().iter().for_each(|line| log.say(line));
    started.map(drop)
}

fn note_ignored(settings: &Settings, log: &dyn Log) {
    let mut seen = HashSet::new();
    for ignored in settings.ignored.iter().filter(|ignored| seen.insert(ignored.option)) {
        log.say(&format!("{} is ignored: {}", ignored.option, ignored.why));
    }
    let is_root = rustix::process::geteuid().is_root();
    if settings.user.is_none() && is_root {
        log.say("running as root; use -u to run as another user");
    }
}

/// memcached listens on all addresses by default, which an operator may not expect.
fn note_open_addresses(running: &Running, log: &dyn Log) {
    let settings = &running.server.settings;
    if settings.sasl || settings.auth_file.is_some() {
        return;
    }
    let open: Vec<&str> = running.addresses.iter().map(String::as_str).filter(|a| is_open(a)).collect();
    if !open.is_empty() {
        let all = open.join(", ");
        log.say(&format!(
            "every client that can connect to {all} may read, store and delete everything: -l 127.0.0.1 \
             serves this machine only, -Y FILE requires authentication"
        ));
    }
}

/// Returns whether other machines can reach an address, in the form of `stats conns`.
fn is_open(address: &str) -> bool {
    let socket = ["tcp:", "tcp6:", "udp:", "udp6:"].iter().find_map(|kind| address.strip_prefix(kind));
    let socket = socket.and_then(|socket| socket.parse::<std::net::SocketAddr>().ok());
    socket.is_some_and(|socket| !socket.ip().to_canonical().is_loopback())
}

/// The signals that the server handles.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    graceful: Signal,
    hangup: Signal,
}

impl Signals {
    /// Registers the signals. From now on they are queued until they are awaited.
    fn hear() -> Result<Self, Error> {
        let on = |kind| signal(kind).map_err(|error| Error::Process { what: "handle signals", error });
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            graceful: on(SignalKind::user_defined1())?,
            hangup: on(SignalKind::hangup())?,
        })
    }
}

/// Waits for a reason to stop. On SIGHUP it reloads certificates and users.
async fn wait(server: &Arc<Server>, mut signals: Signals, log: &dyn Log) {
    let shutdown = server.shutdown.signal();
    loop {
        tokio::select! {
            _ = signals.interrupt.recv() => break,
            _ = signals.terminate.recv() => break,
            _ = signals.graceful.recv() => {
                server.graceful.store(true, Ordering::Relaxed);
                break;
            }
            () = shutdown.triggered() => break,
            _ = signals.hangup.recv() => {
                if let Err(error) = server.users.reload().and_then(|()| server.refresh_certificates()) {
                    log.say(&format!("nothing was reloaded: {error}"));
                }
            }
        }
    }
    if server.graceful.load(Ordering::Relaxed) {
        log.say("Gracefully stopping");
    }
}

/// A running server.
pub(super) struct Running {
    pub server: Arc<Server>,
    queues: Vec<Arc<MessageQueue>>,
    stop: OwnedFd,
    threads: Vec<JoinHandle<()>>,
    unix_socket: Option<std::path::PathBuf>,
    /// The log line about the start, if any.
    said: Option<String>,
    /// Its listening addresses.
    pub addresses: Vec<String>,
}

impl Running {
    /// Opens the cache and the sockets and starts the threads.
    pub fn start(env: Env, settings: Settings, log: Arc<dyn Log>) -> Result<Self, Error> {
        let server = Arc::new(Server::new(env, settings, Shutdown::default(), log)?);
        Self::serve(&server).inspect_err(|_| {
            // the data in the files is kept for the next start
            server.graceful.store(true, Ordering::Relaxed);
            let _ = memory_file::close(&server, CLOSE_PATIENCE);
        })
    }

    /// Opens the sockets and starts the threads.
    fn serve(server: &Arc<Server>) -> Result<Self, Error> {
        let failed = |what| move |error| Error::Process { what, error };
        let unix_socket = server.settings.unix_socket.clone();
        let said = memory_file::restore(server)?;
        // the cache must exist before the first client can connect
        let mut listeners = Listeners::open(&server.settings)?;
        register(server, &listeners);
        if let Some(path) = environment::variable(PORT_FILE) {
            listeners.write_ports(Path::new(&path))?;
        }
        let addresses =
            listeners.streams.iter().chain(&listeners.datagrams).map(|l| l.address.clone()).collect();
        let queues: Vec<Arc<MessageQueue>> = (0..server.workers.len())
            .map(|_| MessageQueue::new().map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(failed("make a poller"))?;
        let mut threads = Vec::new();
        let mut datagrams = listeners.datagrams.drain(..);
        for (counters, queue) in server.workers.iter().zip(&queues) {
            let socket = datagrams.next().map(|l| Datagrams::new(l.socket, Arc::clone(queue)));
            let (counters, queue) = (Arc::clone(counters), Arc::clone(queue));
            let worker =
                Worker::new(Arc::clone(server), counters, queue, socket).map_err(failed("make a poller"))?;
            threads.push(spawn("cache worker", move || worker.run()).map_err(failed("start a thread"))?);
        }
        drop(datagrams);
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed("make a poller")(error.into()))?;
        let acceptor = Acceptor {
            server: Arc::clone(server),
            listeners,
            queues: queues.clone(),
            stop: stop.try_clone().map_err(failed("make a poller"))?,
        };
        threads.push(spawn("cache acceptor", move || acceptor.run()).map_err(failed("start a thread"))?);
        if !server.settings.flash.is_empty() {
            let (server, stop) = (Arc::clone(server), stop.try_clone().map_err(failed("make a poller"))?);
            let context = move || extstore_options::run(&server, &stop);
            threads.push(spawn("cache knobs", context).map_err(failed("start a thread"))?);
        }
        Ok(Self { server: Arc::clone(server), queues, stop, threads, unix_socket, said, addresses })
    }

    /// Stops all threads and connections. Returns a line to log.
    pub fn stop(self) -> Option<String> {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        for queue in &self.queues {
            queue.send(Message::Stop);
        }
        for thread in self.threads {
            // a worker that panicked has reported it; the others still stop in order
            let _ = thread.join();
        }
        // saves the contents of memory or moves them to flash, so that the next start finds them
        let said = memory_file::close(&self.server, CLOSE_PATIENCE);
        if let Some(path) = self.unix_socket {
            let _ = std::fs::remove_file(path);
        }
        said
    }
}

struct Acceptor {
    server: Arc<Server>,
    listeners: Listeners,
    queues: Vec<Arc<MessageQueue>>,
    stop: OwnedFd,
}

impl Acceptor {
    fn run(self) {
        accept(&self.server, &self.listeners.streams, &self.queues, &self.stop);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::settings::{FlashPath, ListenAddress, Tuning};

    fn silent_log() -> Arc<dyn Log> {
        Arc::new(|_: &str| ())
    }

    fn loopback(settings: Settings) -> Running {
        let host = ListenAddress { host: "127.0.0.1".to_owned(), port: None, protocol: None, tls: None };
        Running::start(Env::system(1), Settings { listen: vec![host], threads: 2, ..settings }, silent_log())
            .unwrap()
    }

    /// A server with a flash tier in `folder`, and a client.
    fn with_flash(folder: &Path) -> (Running, TcpStream) {
        let flash = vec![FlashPath { path: folder.join("flash"), bytes: 64 << 20, kept: false }];
        let tuning = Tuning { ext_item_age: 0, ext_recache_rate: 0, ..Tuning::default() };
        let running = loopback(Settings { tcp_port: -1, flash, tuning, ..Settings::default() });
        let client = TcpStream::connect(address(&running, "tcp:")).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        (running, client)
    }

    fn address<'a>(running: &'a Running, prefix: &str) -> &'a str {
        running.addresses.iter().find_map(|address| address.strip_prefix(prefix)).unwrap()
    }

    fn ask(stream: &mut (impl Read + Write), request: &str, lines: usize) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut answer = String::new();
        for _ in 0..lines {
            reader.read_line(&mut answer).unwrap();
        }
        answer
    }

    #[test]
    fn only_loopback_addresses_count_as_local() {
        for open in ["tcp:0.0.0.0:11211", "tcp6:[::]:11211", "udp:10.0.0.1:5", "tcp6:[::ffff:10.0.0.1]:1"] {
            assert!(is_open(open), "{open}");
        }
        for closed in
            ["tcp:127.0.0.1:11211", "tcp6:[::1]:11211", "unix:/tmp/socket", "tcp6:[::ffff:127.0.0.1]:1"]
        {
            assert!(!is_open(closed), "{closed}");
        }
    }

    /// Sends a request in one datagram and returns the answer.
    fn ask_datagram(to: &str, request: &str) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let datagram = [b"\0\x09\0\0\0\x01\0\0", request.as_bytes()].concat();
        socket.send_to(&datagram, to).unwrap();
        let (mut answer, mut total, mut got) = (Vec::new(), 1, 0);
        while got < total {
            let mut datagram = [0; 2000];
            let length = socket.recv(&mut datagram).unwrap();
            assert_eq!(datagram[..2], [0, 9]);
            total = u16::from_be_bytes([datagram[4], datagram[5]]);
            answer.extend_from_slice(&datagram[8..length]);
            got += 1;
        }
        answer
    }

    #[test]
    fn clients_are_served_over_tcp_and_udp_by_several_workers() {
        let running = loopback(Settings { tcp_port: -1, udp_port: -1, ..Settings::default() });
        let mut clients: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(address(&running, "tcp:")).unwrap()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            let value = "v".repeat(300_000);
            let request = format!("set key{number} 0 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(ask(client, &request, 1), "STORED\r\n");
        }
        for client in &mut clients {
            let answer = ask(client, "get key0 key1 key2 key3\r\n", 9);
            assert_eq!((answer.matches("VALUE key").count(), answer.ends_with("END\r\n")), (4, true));
        }
        // small enough for the receive buffer of a socket that is read late
        let request = format!("set small 0 0 20000\r\n{}\r\n", "v".repeat(20_000));
        assert_eq!(ask(&mut clients[0], &request, 1), "STORED\r\n");
        let whole = "VALUE small 0 20000\r\n".len() + 20_000 + "\r\nEND\r\n".len();
        // the request is a sixteenth as long as the answer
        let long = format!("get small{}\r\n", " other".repeat(250));
        assert_eq!(ask_datagram(address(&running, "udp:"), &long).len(), whole);
        let forged = ask_datagram(address(&running, "udp:"), "get small\r\n");
        assert_eq!(forged, b"SERVER_ERROR answer too long for UDP, ask over TCP\r\n", "no amplifier");
        let tiny = ask_datagram(address(&running, "udp:"), "get other\r\n");
        assert_eq!(tiny, b"END\r\n");
        running.stop();
        let mut rest = Vec::new();
        assert_eq!(clients[0].read_to_end(&mut rest).unwrap_or(0), 0, "a stop closes connections");
    }

    #[test]
    fn a_lone_request_for_an_item_on_flash_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let (running, mut client) = with_flash(folder.path());
        let value = "v".repeat(20_000);
        assert_eq!(ask(&mut client, &format!("set key 7 0 20000\r\n{value}\r\n"), 1), "STORED\r\n");
        // one request at a time, with nothing after it
        let on_flash = || running.server.cache.stats().ram.demoted == 1;
        while !on_flash() {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            assert_eq!(
                ask(&mut client, "get key\r\n", 3),
                format!("VALUE key 7 20000\r\n{value}\r\nEND\r\n")
            );
        }
        assert_eq!(ask(&mut client, "append key 0 0 1\r\n!\r\n", 1), "STORED\r\n");
        assert_eq!(ask(&mut client, "mg key s\r\n", 1), "HD s20001\r\n");
        let stats = running.server.sums().totals;
        assert!(stats.get_extstore >= 3, "{stats:?}");
        running.stop();
    }

    /// Stores values until they are only on flash, and none of them in write buffers.
    fn store_on_flash(running: &Running, client: &mut TcpStream, value: &str) {
        for key in 0..100 {
            let set = format!("set {key} 7 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(ask(client, &set, 1), "STORED\r\n");
        }
        let stats = || running.server.cache.stats();
        while stats().ram.demoted < 100 || stats().flash.unwrap().device.unwritten_bytes > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn commands_sent_before_a_close_are_executed_after_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (running, mut client) = with_flash(folder.path());
        store_on_flash(&running, &mut client, &"v".repeat(20_000));
        // Each waits for flash, and the client closes before the first is done.
        let appends: String = (0..100).map(|key| format!("append {key} 0 0 1\r\n!\r\n")).collect();
        client.write_all(format!("{appends}set last 0 0 1\r\nx\r\n").as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "STORED\r\n".repeat(101));
        running.stop();
    }

    #[test]
    fn answers_awaited_from_flash_are_sent_before_the_connection_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (running, mut client) = with_flash(folder.path());
        // Longer than a socket accepts at once.
        let value = "v".repeat(500_000);
        store_on_flash(&running, &mut client, &value);
        let gets: String = (0..50).map(|key| format!("get {key}\r\n")).collect();
        let wanted: String =
            (0..50).map(|key| format!("VALUE {key} 7 500000\r\n{value}\r\nEND\r\n")).collect();
        for (end, closes) in [("quit\r\n", false), ("", true)] {
            let mut leaving = TcpStream::connect(address(&running, "tcp:")).unwrap();
            leaving.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            leaving.write_all(format!("{gets}{end}").as_bytes()).unwrap();
            if closes {
                leaving.shutdown(std::net::Shutdown::Write).unwrap();
            }
            let mut answers = String::new();
            leaving.read_to_string(&mut answers).unwrap();
            assert!(answers == wanted, "{end:?}: {} of {} bytes", answers.len(), wanted.len());
        }
        running.stop();
    }

    #[test]
    fn input_buffers_stay_within_their_limit() {
        // two buffers for the one worker
        let settings = Settings { tcp_port: -1, buffer_bytes_max: 1, ..Settings::default() };
        let host = ListenAddress { host: "127.0.0.1".to_owned(), port: None, protocol: None, tls: None };
        let settings = Settings { listen: vec![host], threads: 1, ..settings };
        let running = Running::start(Env::system(1), settings, silent_log()).unwrap();
        let mut clients: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(address(&running, "tcp:")).unwrap()).collect();
        for client in &mut clients {
            client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            assert_eq!(ask(client, "mn\r\n", 1), "MN\r\n", "an idle client has no buffer");
        }
        let held = || running.server.connections.current();
        let (before, half_a_line) = (held(), format!("get {}", "k ".repeat(500)));
        for client in &mut clients {
            client.write_all(half_a_line.as_bytes()).unwrap();
        }
        while held() > before - 2 {
            std::thread::yield_now();
        }
        let refused: Vec<bool> = clients
            .iter_mut()
            .map(|client| {
                let _ = client.write_all(b"k\r\n");
                let mut line = String::new();
                BufReader::new(client).read_line(&mut line).unwrap();
                assert!(
                    ["END\r\n", "SERVER_ERROR out of memory reading request\r\n"].contains(&&*line),
                    "{line}"
                );
                line != "END\r\n"
            })
            .collect();
        assert_eq!(refused.iter().filter(|refused| **refused).count(), 2);
        assert_eq!(running.server.sums().totals.input_oom, 2);
        running.stop();
    }

    #[test]
    fn an_invalidated_item_on_flash_is_refreshed_by_one_client() {
        let folder = tempfile::tempdir().unwrap();
        let (running, mut client) = with_flash(folder.path());
        let wait_for_flash = || {
            while running.server.cache.stats().items > 0 {
                std::thread::yield_now();
            }
        };
        let set = format!("ms key 20000\r\n{}\r\nmd key I\r\n", "v".repeat(20_000));
        assert_eq!(ask(&mut client, &set, 2), "HD\r\nHD\r\n");
        for marks in ["X W", "Z X", "Z X"] {
            wait_for_flash();
            assert_eq!(ask(&mut client, "mg key s\r\n", 1), format!("HD s20000 {marks}\r\n"));
        }
        let stats = running.server.cache.stats();
        assert_eq!(stats.ram.evicted, 0, "{stats:?}");
        running.stop();
    }

    /// Goal: a graceful stop preserves everything that the protocol shows of an item; other stops drop
    /// it.
    #[test]
    fn a_graceful_stop_saves_memory_to_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let memory_file = Some(folder.path().join("memory"));
        let start =
            || loopback(Settings { tcp_port: -1, memory_file: memory_file.clone(), ..Settings::default() });
        let connect = |running: &Running| {
            let client = TcpStream::connect(address(running, "tcp:")).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            client
        };
        let running = start();
        assert!(running.said.as_ref().unwrap().contains("no saved memory found"), "{:?}", running.said);
        let mut client = connect(&running);
        let large = "v".repeat(300_000);
        let requests = format!("ms small 2 F7 T1000\r\nhi\r\nms large 300000\r\n{large}\r\nmd small I\r\n");
        assert_eq!(ask(&mut client, &requests, 3), "HD\r\nHD\r\nHD\r\n");
        let shown = "mg small v f c\r\n";
        let before = ask(&mut client, shown, 2);
        assert!(before.contains(" f7 ") && before.ends_with("hi\r\n"), "{before}");
        running.server.stop(true);
        let said = running.stop().unwrap();
        assert!(said.contains("2 items saved"), "{said}");

        let running = start();
        assert!(running.said.as_ref().unwrap().contains("2 items restored"), "{:?}", running.said);
        let mut client = connect(&running);
        // the first lookup after the invalidation got the right to refresh the item
        let expected = before.replace(" X W", " Z X");
        assert_eq!(ask(&mut client, shown, 2), expected);
        let answer = ask(&mut client, "get large\r\n", 3);
        assert_eq!(answer, format!("VALUE large 0 300000\r\n{large}\r\nEND\r\n"));
        // any other stop saves nothing, and what was saved before is not served again
        assert_eq!(running.stop(), None);
        let running = start();
        assert_eq!(ask(&mut connect(&running), "get small large\r\n", 1), "END\r\n");
        running.stop();
    }

    #[test]
    fn a_unix_socket_has_the_configured_mask_and_is_removed_at_the_end() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let settings =
            Settings { unix_socket: Some(path.clone()), unix_mask: 0o700, threads: 1, ..Settings::default() };
        let running = Running::start(Env::system(1), settings, silent_log()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let mut client = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&mut client, "mn\r\n", 1), "MN\r\n");
        running.stop();
        assert!(!path.exists());
    }

    #[test]
    fn connections_beyond_the_limit_get_an_error() {
        // the listening socket counts
        let running = loopback(Settings { tcp_port: -1, connections_max: 3, ..Settings::default() });
        let mut clients: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(address(&running, "tcp:")).unwrap()).collect();
        let mut answer = String::new();
        clients[2].read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ERROR Too many open connections\r\n");
        assert_eq!(ask(&mut clients[0], "mn\r\n", 1), "MN\r\n");
        drop(clients.remove(1));
        running.stop();
    }

    /// Silent connections up to the limit used to lock out all other clients for good. Method: one of
    /// three clients stays active while the clock advances; new clients replace the others.
    #[test]
    fn silent_connections_do_not_lock_out_new_clients() {
        for refuse_fast in [true, false] {
            // the listening socket counts
            let settings = Settings { tcp_port: -1, connections_max: 4, refuse_fast, ..Settings::default() };
            let running = loopback(Settings { test_commands: true, ..settings });
            let mut clients: Vec<TcpStream> =
                (0..2).map(|_| TcpStream::connect(address(&running, "tcp:")).unwrap()).collect();
            for client in &mut clients {
                // they leave a value incomplete
                assert_eq!(ask(client, "mn\r\nset half 0 0 1000000\r\n0123456789", 1), "MN\r\n");
            }
            let mut working = TcpStream::connect(address(&running, "tcp:")).unwrap();
            assert_eq!(ask(&mut working, "debugtime 60\r\n", 1), "OK\r\n");
            assert_eq!(ask(&mut working, "mn\r\n", 1), "MN\r\n");
            let mut others: Vec<TcpStream> =
                (0..2).map(|_| TcpStream::connect(address(&running, "tcp:")).unwrap()).collect();
            for other in &mut others {
                assert_eq!(ask(other, "mn\r\n", 1), "MN\r\n");
            }
            assert_eq!(ask(&mut working, "mn\r\n", 1), "MN\r\n");
            for mut silent in clients {
                assert_eq!(silent.read(&mut [0; 9]).unwrap_or(0), 0, "it was cut");
            }
            running.stop();
        }
    }

    #[test]
    fn free_ports_are_written_to_the_port_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports");
        let settings = Settings { tcp_port: -1, udp_port: -1, ..Settings::default() };
        let listeners = Listeners::open(&settings).unwrap();
        listeners.write_ports(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("TCP INET: ") && text.contains("UDP INET: "), "{text}");
    }
}

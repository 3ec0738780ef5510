//! The listeners of the server. They are closed by default: an address beyond loopback needs credentials,
//! or an option that says that it needs none.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use sandur_config::Settings;
use sandur_http::auth::Authority;
use sandur_http::{Acceptor, App, Gate, OwnNames, Served, ServerMetrics, Surface, Tls, router};
use sandur_listeners::Connections;
use sandur_peers::PeerServer;
use sandur_runtime::{Env, ShutdownSignal, Task};
use sandur_terminal::Failed;
use tokio::net::TcpListener;

use crate::memory::Shares;
use crate::open_files::{OPERATORS_CONNECTIONS_MAX, OpenFiles};

/// A bound listener and the routes that it will serve.
pub struct Listener {
    /// Its address.
    pub address: SocketAddr,
    surface: Surface,
    /// Set when the server is ready.
    served: Arc<Served>,
}

/// All listeners of a server.
pub struct Listeners {
    /// The HTTP listener first.
    pub listeners: Vec<Listener>,
    /// The accept loops.
    pub accepting: Vec<Task<()>>,
    /// Reloads certificates.
    pub following: Option<Task<()>>,
}

/// Binds the listeners of the settings, raises the limit of open files, and starts to accept connections.
/// Requests are answered with 503 until [`Listener::open`] is called.
pub async fn bind_all(
    env: &Env,
    settings: &Settings,
    shares: &Shares,
    metrics: &ServerMetrics,
    stop: &ShutdownSignal,
) -> Result<Listeners, Failed> {
    let tls = Tls::open(env.clone(), &settings.tls).await.map_err(|error| Failed::new(error.to_string()))?;
    let tls = tls.map(Arc::new);
    let surface = if settings.admin_listen.is_empty() { Surface::Whole } else { Surface::Data };
    let wanted = [
        ("--listen", &settings.listen, surface),
        ("--admin-listen", &settings.admin_listen, Surface::Operators),
        ("--otlp-grpc-listen", &settings.otlp_grpc_listen, Surface::Grpc),
    ];
    let mut bound = Vec::new();
    for (flag, address, surface) in wanted.into_iter().filter(|(_, address, _)| !address.is_empty()) {
        bound.push((bind(settings, flag, address).await?, surface));
    }
    let (mut listeners, mut accepting, files) = (Vec::new(), Vec::new(), OpenFiles::raise(settings));
    for ((listener, address), surface) in bound {
        let mut http = settings.http.clone();
        if surface == Surface::Operators {
            http.max_connections = http.max_connections.min(OPERATORS_CONNECTIONS_MAX);
        }
        let most = http.max_connections.min(shares.connections_max()).min(files.connections_max());
        let most = (most, http.max_connections_per_address);
        let connections =
            Connections::new(env.clone(), most, shares.heads_budget(), metrics.admission.clone());
        let (world, counted, stop) = (env.clone(), metrics.clone(), stop.clone());
        let acceptor = Acceptor { env: world, http, connections, metrics: counted, tls: tls.clone(), stop };
        let served = Arc::<Served>::default();
        accepting.push(env.spawn("acceptor", acceptor.run(listener, Arc::clone(&served))));
        listeners.push(Listener { address, surface, served });
    }
    let following = tls.map(|tls| env.spawn("certificates", tls.follow()));
    Ok(Listeners { listeners, accepting, following })
}

impl Listener {
    /// Starts to answer requests.
    pub fn open(&self, app: &App, authority: Option<&Arc<Authority>>, peers: Option<&PeerServer>) {
        let names = OwnNames::new(self.address, authority.is_some(), &app.settings.http.allowed_hosts);
        let gate = Gate::new(app.env.clone(), authority.cloned(), names, app.metrics.clone());
        // Set once, here.
        let _ = self.served.router.set(router(app.clone(), self.surface, gate));
        if let Some(peers) = peers.filter(|_| matches!(self.surface, Surface::Whole | Surface::Data)) {
            let _ = self.served.peers.set(peers.clone());
        }
    }
}

/// Checks the addresses of the settings without binding them.
pub fn check(settings: &Settings) -> Vec<Failed> {
    let wanted = [
        ("--listen", &settings.listen),
        ("--admin-listen", &settings.admin_listen),
        ("--otlp-grpc-listen", &settings.otlp_grpc_listen),
    ];
    let check_one = |(flag, wanted): (&str, &String)| match wanted.to_socket_addrs() {
        Ok(mut found) => found.find_map(|address| closed_by_default(settings, flag, address).err()),
        Err(error) => Some(cannot_listen(flag, wanted, &error)),
    };
    wanted.into_iter().filter(|(_, wanted)| !wanted.is_empty()).filter_map(check_one).collect()
}

/// Binds the address that `flag` names, unless that would open the server to all clients without an
/// explicit option.
async fn bind(settings: &Settings, flag: &str, wanted: &str) -> Result<(TcpListener, SocketAddr), Failed> {
    let listener = TcpListener::bind(wanted).await.map_err(|e| cannot_listen(flag, wanted, &e))?;
    let address = listener.local_addr().map_err(|e| cannot_listen(flag, wanted, &e))?;
    closed_by_default(settings, flag, address)?;
    Ok((listener, address))
}

fn closed_by_default(settings: &Settings, flag: &str, address: SocketAddr) -> Result<(), Failed> {
    let local = address.ip().to_canonical().is_loopback();
    let closed = !settings.auth.file.is_empty() || settings.tls.requires_certificates();
    if local || settings.insecure_listen || closed {
        return Ok(());
    }
    let port = address.port();
    Err(Failed::new(format!(
        "refusing to listen on {address} without authentication: every client that can reach it could read, \
         push and delete. Use one of:\n\
         \x20 --auth-file FILE          requires its credentials; `sandur token create` creates one\n\
         \x20 {flag} 127.0.0.1:{port}   only this machine has access; a proxy on it can admit others\n\
         \x20 --insecure-listen         every client that can reach the address has all permissions"
    )))
}

fn cannot_listen(flag: &str, address: &str, error: &std::io::Error) -> Failed {
    let remedy = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("another process listens there: stop it, or choose another address with {flag}")
        }
        std::io::ErrorKind::PermissionDenied => {
            "this user may not listen there: choose a port above 1023".to_owned()
        }
        _ => "write it like 127.0.0.1:3100".to_owned(),
    };
    Failed::new(format!("cannot listen on {address}: {error}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_beyond_loopback_needs_credentials_or_an_option() {
        let closed = Settings::default();
        let open = Settings { insecure_listen: true, ..Settings::default() };
        let mut kept = Settings::default();
        kept.auth.file = "auth.toml".to_owned();
        for (address, local) in [
            ("127.0.0.1:3100", true),
            ("127.8.8.8:1", true),
            ("[::1]:3100", true),
            ("[::ffff:127.0.0.1]:3100", true),
            ("0.0.0.0:3100", false),
            ("[::]:3100", false),
            ("10.1.2.3:80", false),
            ("[fe80::1]:3100", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(closed_by_default(&closed, "--listen", address).is_ok(), local, "{address}");
            assert!(closed_by_default(&open, "--listen", address).is_ok());
            assert!(closed_by_default(&kept, "--listen", address).is_ok());
        }
        let refused = closed_by_default(&closed, "--admin-listen", "0.0.0.0:9".parse().unwrap()).unwrap_err();
        for way in ["--auth-file FILE", "--admin-listen 127.0.0.1:9", "--insecure-listen"] {
            assert!(refused.message().contains(way), "{}", refused.message());
        }
    }
}

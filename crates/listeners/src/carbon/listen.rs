//! The addresses of Carbon's listeners, which are reachable beyond this machine only if that is
//! configured.
//!
//! Carbon has no credentials, so `auth.file` and client certificates do not protect these listeners: an
//! address beyond loopback needs `insecure_listen`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use sandur_carbon::{PICKLE, PLAINTEXT, PROTOBUF, Protocol};
use sandur_terminal::Failed;
use tokio::net::{TcpListener, UdpSocket};

use super::tenancy::Tenancy;
use sandur_config::Settings;

/// A bound address.
pub struct Bound {
    /// The address.
    pub address: SocketAddr,
    pub(super) protocol: &'static Protocol,
    pub(super) tenancy: Arc<Tenancy>,
    pub(super) tcp: TcpListener,
    pub(super) udp: Option<UdpSocket>,
}

/// Flag, address, protocol and tenant of the listeners that the settings want.
fn wanted(settings: &Settings) -> impl Iterator<Item = (&'static str, &str, &'static Protocol, &str)> {
    let carbon = &settings.carbon;
    let all: [(&'static str, &str, &'static Protocol, &str); 3] = [
        ("--carbon-listen", &carbon.listen, &PLAINTEXT, ""),
        ("--carbon-pickle-listen", &carbon.pickle_listen, &PICKLE, &carbon.pickle_tenant),
        ("--carbon-protobuf-listen", &carbon.protobuf_listen, &PROTOBUF, &carbon.protobuf_tenant),
    ];
    all.into_iter().filter(|(_, address, ..)| !address.is_empty())
}

fn cannot_listen(flag: &str, address: &str, error: &std::io::Error) -> Failed {
    Failed::new(format!(
        "cannot listen on {address}: {error}; choose another address with {flag}, such as 127.0.0.1:2003"
    ))
}

/// Checks the addresses of the settings without binding them.
pub fn check(settings: &Settings) -> Vec<Failed> {
    let check_one = |(flag, address, _, tenant): (&str, &str, _, &str)| {
        if let Err(error) = Tenancy::of(&settings.carbon, tenant) {
            return Some(Failed::new(error));
        }
        match address.to_socket_addrs() {
            Ok(mut found) => found.find_map(|address| closed_by_default(settings, flag, address).err()),
            Err(error) => Some(cannot_listen(flag, address, &error)),
        }
    };
    wanted(settings).filter_map(check_one).collect()
}

/// Binds the addresses of the settings.
pub async fn bind(settings: &Settings) -> Result<Vec<Bound>, Failed> {
    let mut bound = Vec::new();
    for (flag, address, protocol, tenant) in wanted(settings) {
        let tenancy = Arc::new(Tenancy::of(&settings.carbon, tenant).map_err(Failed::new)?);
        let failed = |error: std::io::Error| cannot_listen(flag, address, &error);
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let local = tcp.local_addr().map_err(failed)?;
        closed_by_default(settings, flag, local)?;
        // Datagrams contain lines, on the same port.
        let udp = match protocol.name == PLAINTEXT.name {
            true => Some(UdpSocket::bind(local).await.map_err(failed)?),
            false => None,
        };
        bound.push(Bound { address: local, protocol, tenancy, tcp, udp });
    }
    Ok(bound)
}

fn closed_by_default(settings: &Settings, flag: &str, address: SocketAddr) -> Result<(), Failed> {
    if address.ip().to_canonical().is_loopback() || settings.insecure_listen {
        return Ok(());
    }
    let port = address.port();
    Err(Failed::new(format!(
        "refusing to listen on {address}: carbon's protocols have no credentials, so every client that can \
         reach it could write. Use one of:\n\
         \x20 {flag} 127.0.0.1:{port}   only this machine may send; a relay on it can forward for others\n\
         \x20 --insecure-listen         every client that can reach the address may write (and, without \
         --auth-file, has all permissions at the other listeners)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_do_not_permit_addresses_of_carbon() {
        let mut settings = Settings::default();
        settings.auth.file = "auth.toml".to_owned();
        let check = |settings: &Settings, address: &str| {
            closed_by_default(settings, "--carbon-listen", address.parse().unwrap())
        };
        assert!(check(&settings, "127.0.0.1:2003").is_ok());
        let refused = check(&settings, "0.0.0.0:2003").unwrap_err();
        assert!(refused.message().contains("--insecure-listen"), "{}", refused.message());
        settings.insecure_listen = true;
        assert!(check(&settings, "0.0.0.0:2003").is_ok());
    }
}

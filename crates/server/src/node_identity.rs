//! The identity of this node: its stable id and the address that it tells others.
//!
//! The id is that of `cluster.node_id`, or is made once and kept in a file, in the directory of the cache or,
//! for a local store, in that of the store. The file stays locked while the process runs: of two processes
//! with one directory only the first has its id.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sandur_config::Settings;
use sandur_runtime::{Env, machine};
use sandur_store::StoreKind;
use sandur_terminal::Failed;

/// Name of the file.
const FILE: &str = "node_id";
/// Longest configured id. A prefix and the id of a process must fit into what the catalog takes.
const ID_BYTES_MAX: usize = 64;
/// Longest zone.
const ZONE_BYTES_MAX: usize = 64;

/// The id of this node, and what keeps it from other processes.
#[derive(Debug)]
pub struct NodeIdentity {
    /// The id; empty if each start has a new one.
    pub id: String,
    _lock: Option<File>,
}

impl NodeIdentity {
    /// Returns the id by the settings and the kind of the store.
    pub fn of(env: &Env, settings: &Settings, store: &StoreKind) -> Result<Self, Failed> {
        check(settings)?;
        let configured = &settings.cluster.node_id;
        if !configured.is_empty() {
            return Ok(Self { id: configured.clone(), _lock: None });
        }
        let directory = match store {
            StoreKind::Local { root } => Some(root.clone()),
            _ => Some(&settings.cache.dir).filter(|dir| !dir.is_empty()).map(PathBuf::from),
        };
        let Some(directory) = directory else { return Ok(Self { id: String::new(), _lock: None }) };
        match kept(env, &directory) {
            Ok((id, lock)) => Ok(Self { id, _lock: Some(lock) }),
            Err(reason) => {
                let directory = directory.display();
                let text = "the node has a new id until the next start; see cluster.node_id";
                tracing::warn!(%directory, reason, "{text}");
                Ok(Self { id: String::new(), _lock: None })
            }
        }
    }
}

/// Reads the id in a directory, or makes one.
fn kept(env: &Env, directory: &Path) -> Result<(String, File), String> {
    std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    let path = directory.join(FILE);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(|error| error.to_string())?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| format!("another process uses {}", path.display()))?;
    let mut text = String::new();
    let read = (&mut file).take(ID_BYTES_MAX as u64 + 2).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    let id = text.trim();
    if is_id(id) {
        return Ok((id.to_owned(), file));
    }
    if !id.is_empty() {
        return Err(format!("{} holds no id: remove it, or write an id into it", path.display()));
    }
    let id = env.new_id().to_string();
    let written = file.write_all(format!("{id}\n").as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| error.to_string())?;
    Ok((id, file))
}

fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= ID_BYTES_MAX && text.chars().all(fits)
}

/// Checks the configured names.
pub fn check(settings: &Settings) -> Result<(), Failed> {
    let cluster = &settings.cluster;
    if !cluster.node_id.is_empty() && !is_id(&cluster.node_id) {
        return Err(Failed::new(format!(
            "cluster.node_id: '{}' is no id: use letters, digits, '-', '_' and '.', at most {ID_BYTES_MAX}",
            cluster.node_id
        )));
    }
    let zone = &cluster.zone;
    if zone.len() > ZONE_BYTES_MAX || !zone.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Failed::new(format!(
            "cluster.zone: '{zone}' is no zone: use at most {ZONE_BYTES_MAX} ASCII characters without spaces"
        )));
    }
    Ok(())
}

/// The address that others use for this process, which listens on `bound`, and the name of the machine.
pub fn own_address(settings: &Settings, bound: SocketAddr) -> Result<(String, String), Failed> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok((advertised(settings, bound, &host)?, host))
}

/// The address that others use for a process that listens on `bound`.
pub fn advertised(settings: &Settings, bound: SocketAddr, host: &str) -> Result<String, Failed> {
    let wanted = &settings.cluster.advertise_address;
    if wanted.is_empty() {
        return Ok(derived(bound, machine::default_route_address(), host));
    }
    let parts =
        wanted.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let is_wildcard = wanted.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified());
    if parts.is_none() || is_wildcard || wanted.len() > 255 {
        return Err(Failed::new(format!(
            "cluster.advertise_address: '{wanted}' is no address that others can reach: write HOST:PORT"
        )));
    }
    Ok(wanted.clone())
}

/// Checks the configured address without a listener.
pub fn check_advertised(settings: &Settings) -> Result<(), Failed> {
    advertised(settings, SocketAddr::from(([127, 0, 0, 1], 0)), "").map(drop)
}

fn derived(bound: SocketAddr, route: Option<IpAddr>, host: &str) -> String {
    match (bound.ip().to_canonical(), route) {
        (ip, _) if !ip.is_unspecified() => SocketAddr::new(ip, bound.port()).to_string(),
        (_, Some(ip)) => SocketAddr::new(ip, bound.port()).to_string(),
        (_, None) => format!("{host}:{}", bound.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_outlives_the_process_and_has_one_owner() {
        let (env, directory) = (Env::system(1), tempfile::TempDir::new().unwrap());
        let store = StoreKind::Local { root: directory.path().to_owned() };
        let settings = Settings::default();
        let first = NodeIdentity::of(&env, &settings, &store).unwrap();
        assert_eq!(first.id.len(), 26);
        let second = NodeIdentity::of(&env, &settings, &store).unwrap();
        assert_eq!(second.id, "", "another process uses the directory");
        let id = first.id.clone();
        drop(first);
        assert_eq!(NodeIdentity::of(&env, &settings, &store).unwrap().id, id);
        // A bucket: in the directory of the cache, if there is one.
        let mut cached = Settings::default();
        assert_eq!(NodeIdentity::of(&env, &cached, &StoreKind::Bucket).unwrap().id, "");
        cached.cache.dir = directory.path().to_str().unwrap().to_owned();
        assert_eq!(NodeIdentity::of(&env, &cached, &StoreKind::Bucket).unwrap().id, id);
        std::fs::write(directory.path().join(FILE), "not an id!").unwrap();
        assert_eq!(NodeIdentity::of(&env, &cached, &StoreKind::Bucket).unwrap().id, "");
        let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert_eq!(text, "not an id!", "left alone");
    }

    #[test]
    fn configured_names_are_checked() {
        let env = Env::system(1);
        let mut settings = Settings::default();
        settings.cluster.node_id = "sandur-0.eu_1".to_owned();
        assert_eq!(NodeIdentity::of(&env, &settings, &StoreKind::Bucket).unwrap().id, "sandur-0.eu_1");
        for wrong in ["a b", "a+b", "é", &"x".repeat(65)] {
            settings.cluster.node_id = wrong.to_owned();
            let error = NodeIdentity::of(&env, &settings, &StoreKind::Bucket).unwrap_err();
            assert!(error.message().contains("cluster.node_id"), "{}", error.message());
        }
    }

    #[test]
    fn a_zone_is_a_word_of_ascii() {
        let env = Env::system(1);
        let mut settings = Settings::default();
        settings.cluster.zone = "eu-west-1a".to_owned();
        assert!(NodeIdentity::of(&env, &settings, &StoreKind::Bucket).is_ok());
        for wrong in ["rack 1", "zürich", &"x".repeat(65)] {
            settings.cluster.zone = wrong.to_owned();
            let error = NodeIdentity::of(&env, &settings, &StoreKind::Bucket).unwrap_err();
            assert!(error.message().contains("cluster.zone"), "{}", error.message());
        }
    }

    #[test]
    fn a_wildcard_is_never_advertised() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let route = Some("10.1.2.3".parse().unwrap());
        assert_eq!(derived(at("192.168.0.7:3100"), route, "h"), "192.168.0.7:3100");
        assert_eq!(derived(at("[::ffff:192.168.0.7]:3100"), route, "h"), "192.168.0.7:3100");
        for wildcard in ["0.0.0.0:3100", "[::]:3100"] {
            assert_eq!(derived(at(wildcard), route, "h"), "10.1.2.3:3100");
            assert_eq!(derived(at(wildcard), None, "host-a"), "host-a:3100");
        }
        let mut settings = Settings::default();
        for (wanted, is_right) in [
            ("sandur-0.sandur:3100", true),
            ("10.0.0.1:3100", true),
            ("0.0.0.0:3100", false),
            ("host", false),
        ] {
            settings.cluster.advertise_address = wanted.to_owned();
            assert_eq!(advertised(&settings, at("0.0.0.0:1"), "h").is_ok(), is_right, "{wanted}");
        }
    }
}

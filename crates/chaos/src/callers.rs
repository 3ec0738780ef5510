//! Which node opened a connection: the kernel's tables lead from its two addresses to a socket, and from
//! the socket to a process (Linux).

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The index of the process in `processes` that has the socket with the local address `from`, connected
/// to `to`. `None` if no process of these has it.
pub fn caller(processes: &[Option<u32>], from: SocketAddr, to: SocketAddr) -> Option<usize> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let link = format!("socket:[{}]", socket(&table, from, to)?);
    processes.iter().position(|process| {
        let Some(process) = process else { return false };
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|target| target.to_str() == Some(&link))
    })
}

/// The inode of a socket in the kernel's table, which may have thousands of lines.
fn socket(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<&str> {
    let (_, rest) = table.split_once(&format!(" {} {} ", written(local)?, written(remote)?))?;
    // After the addresses: state, queues, timers, retransmissions, user, timeouts.
    rest.split_whitespace().nth(6)
}

/// An address as the table has it: hexadecimal digits of the number in the order of the machine.
fn written(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_leads_to_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let stream = TcpStream::connect(to).unwrap();
        let from = stream.local_addr().unwrap();
        assert_eq!(caller(&[None, Some(1), Some(std::process::id())], from, to), Some(2));
        assert_eq!(caller(&[None], from, to), None);
    }
}

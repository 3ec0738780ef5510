//! Hostile clients of the memcached server: announced values that are never sent, endless lines, idle
//! connections, unread answers, random bytes in both protocols.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::Result;

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::pause::Pause;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "memcached-clients", about: "half-sent values, endless lines, unread answers", run };

/// The address of a well-behaved client that must be served.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
/// How long hostile connections are kept open.
const HELD: Duration = Duration::from_secs(3);

fn run(ground: &Ground<'_>) -> Result<()> {
    let mut held = Vec::new();
    let keys = "key ".repeat(20_000);
    let commands: Vec<Vec<u8>> = vec![
        b"set k 0 0 1048000\r\n".to_vec(),
        b"set k 0 0 99999999999\r\n".to_vec(),
        b"set k 0 0 -1\r\n".to_vec(),
        b"set k 0 0 18446744073709551615\r\n".to_vec(),
        b"ms k S1048000\r\n".to_vec(),
        b"ms k S18446744073709551615\r\n".to_vec(),
        vec![b'a'; 1 << 20],
        format!("get {keys}\r\n").into_bytes(),
        b"mn\r\n".repeat(10_000),
        // A binary set whose body has 2^32 - 1 bytes.
        vec![0x80, 1, 0, 1, 8, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // A binary header whose key is longer than its body.
        vec![0x80, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"incr k 18446744073709551616\r\n".to_vec(),
        b"touch k 99999999999999999999\r\n".to_vec(),
        b"watch fetchers mutations evictions\r\n".to_vec(),
        b"lru_crawler metadump all\r\n".to_vec(),
    ];
    for round in 0..ground.pick(8, 40) {
        for command in &commands {
            let Ok(mut stream) = raw::connect_from(ATTACKER, ground.cache) else { continue };
            stream.set_write_timeout(Some(Duration::from_millis(500)))?;
            let _ = stream.write_all(command);
            // One in eight connections is read to its end; the others are neither read nor closed.
            if round % 8 == 0 {
                ended(&mut stream);
            } else {
                held.push(stream);
            }
        }
    }
    Pause::default().wait(HELD);
    drop(held);
    neighbour(ground)
}

fn ended(stream: &mut TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let mut answer = Vec::new();
    let _ = stream.take(1 << 20).read_to_end(&mut answer);
}

/// Afterwards, checks that a well-behaved client is served.
fn neighbour(ground: &Ground<'_>) -> Result<()> {
    let mut stream = raw::connect_from(NEIGHBOUR, ground.cache)?;
    stream.write_all(b"set polite 0 0 5\r\nhello\r\nget polite\r\nquit\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer != "STORED\r\nVALUE polite 0 5\r\nhello\r\nEND\r\n" {
        ground.tally.finding(format!("the memcached server answered a well-behaved client with {answer:?}"));
    }
    Ok(())
}

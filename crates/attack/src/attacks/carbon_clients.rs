//! Hostile clients of carbon's listeners: endless lines, messages that are announced and never sent,
//! pickles that would run code or grow, compressed streams that decompress to much, idle connections,
//! and points with numbers and names at the limits of what is permitted.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sandur_bench::http::escaped;

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::pause::Pause;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "carbon-clients", about: "hostile lines, pickles, messages and streams of carbon", run };

/// The address of a well-behaved client that must be served.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// How long hostile connections are kept open.
const HELD: Duration = Duration::from_secs(3);
/// Number of zeros that a stream decompresses to.
const BOMB_BYTES: usize = 256 << 20;

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1e308",
    "-1e999",
    "nan",
    "inf",
    "-inf",
    "9223372036854775808",
    "18446744073709551616",
    "0x10",
    "1_000",
    "",
    "1e-999",
];

fn run(ground: &Ground<'_>) -> Result<()> {
    let carbon = ground.carbon;
    let mut held = Vec::new();
    for round in 0..ground.pick(2, 12) {
        for bytes in plaintext(ground) {
            held.extend(send(carbon.plaintext, &bytes, round % 2 == 0));
        }
        for bytes in pickles().into_iter().chain(announced()) {
            held.extend(send(carbon.pickle, &bytes, round % 2 == 0));
            held.extend(send(carbon.protobuf, &bytes, round % 2 == 0));
        }
    }
    bombs(ground, carbon.plaintext)?;
    Pause::default().wait(HELD);
    drop(held);
    neighbour(ground)
}

/// Sends bytes to a listener. Returns the connection if it is to be kept open.
fn send(to: SocketAddr, bytes: &[u8], is_kept: bool) -> Option<std::net::TcpStream> {
    let mut stream = raw::connect_from(ATTACKER, to).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(500))).ok()?;
    // A listener may close the connection before everything is sent.
    let _ = stream.write_all(bytes);
    is_kept.then_some(stream)
}

fn plaintext(ground: &Ground<'_>) -> Vec<Vec<u8>> {
    let now = ground.env.now_ns() / 1_000_000_000;
    let mut all = vec![
        vec![b'a'; 4 << 20],
        b"attack.half 1".to_vec(),
        b"\n".repeat(100_000),
        b"a b\n".repeat(50_000),
        format!("{} 1 {now}\n", "a.".repeat(100_000)).into_bytes(),
        format!("attack.tags{} 1 {now}\n", ";a=b".repeat(20_000)).into_bytes(),
        (0..20_000).flat_map(|n| format!("attack.many.m{n} {n} {now}\n").into_bytes()).collect(),
        b"attack.\xff\xfe\x00.x 1 2\n".repeat(1_000),
    ];
    let mut edges = String::new();
    for value in NUMBERS {
        for time in NUMBERS.iter().copied().chain(["-1", "N", "99999999999", "1.5"]) {
            edges += &format!("attack.edge {value} {time}\n");
        }
    }
    all.push(edges.into_bytes());
    all
}

/// Encodes a message with its length, as in the framed protocols.
fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), body].concat()
}

fn pickles() -> Vec<Vec<u8>> {
    [
        // A pickle that would call a function.
        b"cos\nsystem\n(S'true'\ntR.".to_vec(),
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.".to_vec(),
        // Lists within lists, and endless marks.
        [b"(l".repeat(200_000), b"a".repeat(200_000), b".".to_vec()].concat(),
        b"(".repeat(1 << 20),
        b"]".repeat(1 << 20),
        // Each list is inserted into the next one twice: its text would double a hundred times.
        [b"]q\x00".to_vec(), b"]h\x00ah\x00aq\x00".repeat(100), b".".to_vec()].concat(),
        // Strings that announce more bytes than there are.
        b"\x80\x02T\xff\xff\xff\x7fabc.".to_vec(),
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.".to_vec(),
        // A number with a hundred thousand digits.
        [b"L".to_vec(), b"9".repeat(100_000), b"L\n.".to_vec()].concat(),
        // A memo at the limit of its index.
        b"\x80\x02]r\xff\xff\xff\xffj\xff\xff\xff\xff.".to_vec(),
        b".".to_vec(),
        Vec::new(),
    ]
    .map(|body| framed(&body))
    .to_vec()
}

/// Returns messages that are never complete.
fn announced() -> Vec<Vec<u8>> {
    let lengths = [u32::MAX, 1 << 31, 64 << 20, 1 << 20, 1];
    let cut = lengths.map(|length| [&length.to_be_bytes()[..], b"("].concat());
    let mut all = cut.to_vec();
    // A field of 2^60 bytes, and bytes that are not a field.
    all.push(framed(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x0f"));
    all.push(framed(&[0xFF; 4_096]));
    all.push(vec![0; 3]);
    all
}

fn bombs(ground: &Ground<'_>, to: SocketAddr) -> Result<()> {
    let zeros = vec![b' '; ground.pick(BOMB_BYTES / 8, BOMB_BYTES)];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&zeros)?;
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&zeros)?;
    let streams = [gzip.finish()?, zstd::encode_all(&zeros[..], 1)?, lz4.finish()?];
    drop(zeros);
    for stream in &streams {
        for _ in 0..ground.pick(2, 8) {
            drop(send(to, stream, false));
        }
        ground.ask("POST", "/graphite/carbon", &[("Content-Encoding", "gzip")], stream);
        // Truncated, and with one byte changed.
        drop(send(to, &stream[..stream.len() / 2], false));
        let mut damaged = stream.clone();
        damaged[stream.len() / 2] ^= 0xFF;
        drop(send(to, &damaged, false));
    }
    Ok(())
}

/// Afterwards, checks that the point of a well-behaved client is stored.
fn neighbour(ground: &Ground<'_>) -> Result<()> {
    let name = format!("polite.seed{}.value", ground.seed);
    let now = ground.env.now_ns() / 1_000_000_000;
    let mut stream = raw::connect_from(NEIGHBOUR, ground.carbon.plaintext)?;
    stream.write_all(format!("{name} 42 {now}\n").as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // The server closes the connection once everything is stored.
    ensure!(
        std::io::copy(&mut stream, &mut std::io::sink())? == 0,
        "carbon's protocol must not send answers"
    );
    let path = format!("/render?format=json&from=-10min&target={}", escaped(&name));
    let answer = raw::request((NEIGHBOUR, ground.address), "GET", &path, &[], b"");
    let (status, body) = answer.context("cannot query the point of a well-behaved client")?;
    let text = String::from_utf8_lossy(&body);
    if status != 200 || !text.contains("[42") {
        ground.tally.finding(format!(
            "the query for the point of a well-behaved client of carbon is answered with {status} {text:.200}"
        ));
    }
    Ok(())
}

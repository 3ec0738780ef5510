//! Compares the rings with those of the programs that they come from, at every position, for random
//! clusters.
//!
//! Carbon and carbon-relay-ng are run through small programs of ours that call their own code
//! (`originals/`) and write a 16-bit number for each position. carbon-c-relay runs in its test mode, on
//! names that cover every position.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandur_relay::node::Node;
use sandur_relay::replicas::{Distribution, Rule};
use sandur_relay::ring::Kind;
use sandur_runtime::Env;

/// Paths of the programs; a program without one is not compared.
#[derive(Default)]
pub struct Programs {
    /// A Python interpreter with carbon and mmh3.
    pub python: Option<PathBuf>,
    /// Our program that calls carbon-relay-ng's rings.
    pub relay_ng: Option<PathBuf>,
    /// carbon-c-relay.
    pub c_relay: Option<PathBuf>,
}

/// The result of comparing one ring.
pub struct Compared {
    /// The program and its ring.
    pub ring: String,
    /// Number of compared positions or names, over all clusters.
    pub places: usize,
    /// Descriptions of the first differences.
    pub differences: Vec<String>,
    /// Number of all differences.
    pub different: usize,
}

const POSITIONS: usize = 65_536;
const SHOWN: usize = 5;

/// Compares all rings on `clusters` random clusters. Writes its files into `folder`.
pub fn compare(
    programs: &Programs,
    folder: &Path,
    clusters: usize,
    seed: u64,
) -> Result<Vec<Compared>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let clusters = random_clusters(clusters, seed);
    let list = folder.join("clusters");
    std::fs::write(&list, lines(&clusters)).map_err(wrong)?;
    let mut compared = Vec::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("originals");
    if let Some(python) = &programs.python {
        run(Command::new(python).arg(here.join("carbon_rings.py")).args([&list, folder]))?;
        for name in ["carbon_ch", "fnv1a_ch", "mmh3_ch"] {
            compared.push(positions("carbon", name, &clusters, folder)?);
        }
    }
    if let Some(program) = &programs.relay_ng {
        run(Command::new(program).args([&list, folder]))?;
        for name in ["consistentHashing", "consistentHashing-v2"] {
            compared.push(positions("carbon-relay-ng", name, &clusters, folder)?);
        }
    }
    if let Some(program) = &programs.c_relay {
        for name in ["carbon_ch", "fnv1a_ch", "jump_fnv1a_ch"] {
            compared.push(names(program, name, &clusters, folder)?);
        }
    }
    Ok(compared)
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// Returns clusters of 2 to 40 members; half of the clusters have instances.
fn random_clusters(count: usize, seed: u64) -> Vec<Vec<Node>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let env = runtime.block_on(async { Env::simulated(seed, 0) });
    let mut cluster = |number: usize| {
        let with_instances = env.random_below(2) == 0;
        let member = |index: u64| {
            let host = format!(
                "10.{}.{}.{}",
                number % 256,
                index + 40 * (number as u64 / 256),
                env.random_below(250)
            );
            let instance = with_instances.then(|| format!("{:x}", env.random_below(1 << 24)));
            Node { host, port: 2003 + env.random_below(4) as u16, instance, zone: None }
        };
        (0..2 + env.random_below(39)).map(member).collect()
    };
    (0..count).map(&mut cluster).collect()
}

fn lines(clusters: &[Vec<Node>]) -> String {
    let mut text = String::new();
    for cluster in clusters {
        for node in cluster {
            let _ = write!(text, "{}:{}:{} ", node.host, node.port, node.instance.as_deref().unwrap_or(""));
        }
        text.push('\n');
    }
    text
}

fn distribution(kind: &Kind, nodes: &[Node]) -> Result<Distribution, String> {
    Distribution::new(kind, nodes.to_vec(), 1, Rule::Ring).map_err(|error| error.to_string())
}

/// Compares the answers of a program for every position.
fn positions(origin: &str, name: &str, clusters: &[Vec<Node>], folder: &Path) -> Result<Compared, String> {
    let kind = Kind::named(origin, name).ok_or("no such ring")?;
    let path = folder.join(format!("{origin}-{name}"));
    let file = std::fs::File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = BufReader::new(file);
    let mut compared = Compared::new(origin, name);
    for (number, nodes) in clusters.iter().enumerate() {
        let distribution = distribution(kind, nodes)?;
        for step in 0..POSITIONS as i64 {
            let mut answer = [0; 2];
            file.read_exact(&mut answer).map_err(|error| format!("{}: {error}", path.display()))?;
            let position = if name == "mmh3_ch" { step * 65_536 - (1 << 31) } else { step };
            let own = distribution.ring().at(position);
            let expected = usize::from(u16::from_le_bytes(answer));
            compared.note(own == Some(expected), || {
                format!("cluster {number}, position {position}: {own:?}, expected {expected}")
            });
        }
    }
    Ok(compared)
}

impl Compared {
    fn new(origin: &str, name: &str) -> Self {
        let ring = format!("{origin}/{name}");
        Self { ring, places: 0, differences: Vec::new(), different: 0 }
    }

    fn note(&mut self, is_equal: bool, difference: impl FnOnce() -> String) {
        self.places += 1;
        if !is_equal {
            self.different += 1;
            if self.differences.len() < SHOWN {
                self.differences.push(difference());
            }
        }
    }
}

/// Returns a name for each position of the ring. A jump hash has no positions, so its names are
/// arbitrary.
fn names_of_positions(name: &str) -> Result<Vec<String>, String> {
    if name == "jump_fnv1a_ch" {
        return Ok((0..POSITIONS).map(|index| format!("name.{index}")).collect());
    }
    let (mut found, mut left, mut index) = (vec![String::new(); POSITIONS], POSITIONS, 0_u64);
    let position = match name {
        "carbon_ch" => sandur_relay::ring::carbon_position,
        _ => sandur_relay::ring::fnv1a_position,
    };
    while left > 0 {
        let name = format!("name.{index}");
        let place = &mut found[usize::from(position(name.as_bytes()))];
        if place.is_empty() {
            (*place, left) = (name, left - 1);
        }
        index += 1;
    }
    Ok(found)
}

/// Compares the answers of carbon-c-relay's test mode.
fn names(program: &Path, name: &str, clusters: &[Vec<Node>], folder: &Path) -> Result<Compared, String> {
    let kind = Kind::named("carbon-c-relay", name).ok_or("no such ring")?;
    let names = names_of_positions(name)?;
    let input = folder.join(format!("names-{name}"));
    let configuration = folder.join(format!("carbon-c-relay-{name}.conf"));
    let mut text = String::new();
    for (number, nodes) in clusters.iter().enumerate() {
        let _ = write!(text, "cluster c{number} {name}");
        nodes.iter().for_each(|node| {
            let _ = write!(text, " {node}");
        });
        text.push_str(";\n");
    }
    let all: Vec<String> = (0..clusters.len()).map(|number| format!("c{number}")).collect();
    let _ = writeln!(text, "match * send to {} stop;", all.join(" "));
    let wrong = |error: std::io::Error| format!("{}: {error}", input.display());
    std::fs::write(&configuration, text).map_err(wrong)?;
    std::fs::write(&input, names.join("\n") + "\n").map_err(wrong)?;
    let mut command = Command::new(program);
    command.arg("-t").arg("-f").arg(&configuration).stdin(std::fs::File::open(&input).map_err(wrong)?);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(wrong)?;
    let output = child.stdout.take().ok_or("carbon-c-relay has no output")?;
    let mut compared = Compared::new("carbon-c-relay", name);
    answers(BufReader::new(output), kind, name, clusters, &mut compared)?;
    let _ = child.wait();
    let expected = POSITIONS * clusters.len();
    match compared.places == expected {
        true => Ok(compared),
        false => Err(format!("carbon-c-relay/{name}: {} answers, expected {expected}", compared.places)),
    }
}

/// Reads `    * -> NAME`, then for each cluster `    RING(CLUSTER)` and `        HOST:PORT`.
fn answers(
    output: impl BufRead,
    kind: &Kind,
    name: &str,
    clusters: &[Vec<Node>],
    compared: &mut Compared,
) -> Result<(), String> {
    let mut rings = Vec::new();
    let mut members = HashMap::new();
    for nodes in clusters {
        rings.push(distribution(kind, nodes)?);
        for (index, node) in nodes.iter().enumerate() {
            members.insert(format!("{}:{}", node.host, node.port), index);
        }
    }
    let (mut key, mut cluster, mut chosen) = (String::new(), None, Vec::new());
    let opening = format!("{name}(c");
    for line in output.lines() {
        let line = line.map_err(|error| format!("carbon-c-relay: {error}"))?;
        let text = line.trim();
        if let Some((_, own)) = text.split_once("* -> ") {
            key = own.to_owned();
        } else if let Some(number) = text.strip_prefix(&opening) {
            cluster = number.trim_end_matches(')').parse::<usize>().ok().filter(|own| *own < rings.len());
        } else if let (Some(number), Some(expected)) =
            (cluster.filter(|_| !key.is_empty()), members.get(text))
        {
            rings[number].choose(key.as_bytes(), &mut chosen);
            compared.note(chosen.first() == Some(expected), || {
                format!("cluster {number}, {key}: {chosen:?}, expected {expected}")
            });
            cluster = None;
        }
    }
    Ok(())
}

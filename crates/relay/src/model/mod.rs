//! The routing of a relay, independent of which program's configuration it was read from: listeners,
//! targets, clusters, and the stages that a point passes.
//!
//! **Invariants.** Indexes of targets, clusters and stages refer to the lists of this [`Routing`].
//! Stages run in order.

pub mod aggregate;
mod example;
pub mod matcher;
pub mod rewrite;
pub mod template;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use matcher::Matcher;
use rewrite::Rewrite;
pub use template::NAME_BYTES_MAX;

use crate::node::Node;
use crate::replicas::Rule;
use crate::ring::Kind;

/// Bytes that a compressed or encrypted connection uses in addition to those of a plain one.
pub(crate) const PACKED_BYTES: u64 = 2 << 20;

/// How points are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// One line per point.
    #[default]
    Line,
    /// Lists in Python's pickle format, each preceded by its length.
    Pickle,
}

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// A TCP connection.
    #[default]
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// How the bytes of a connection are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Packing {
    /// No compression.
    #[default]
    Plain,
    /// One gzip stream per connection.
    Gzip,
    /// One lz4 frame per connection.
    Lz4,
    /// One zstd frame per connection.
    Zstd,
}

impl Packing {
    /// Names that configuration files use.
    pub const NAMES: [(&str, Self); 4] =
        [("plain", Self::Plain), ("gzip", Self::Gzip), ("lz4", Self::Lz4), ("zstd", Self::Zstd)];

    /// Returns the compression with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, packing)| *packing)
    }
}

/// The files of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Encryption {
    /// Certificate authorities that the target's certificate is verified against. The default is the
    /// system's.
    pub authorities: Option<PathBuf>,
    /// The client certificate and its key, for targets that require one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An address that the relay listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port.
    pub address: String,
    /// The transport protocol.
    pub transport: Transport,
    /// How points are encoded.
    pub protocol: Protocol,
}

/// A destination of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host, port and instance.
    pub node: Node,
    /// The transport protocol.
    pub transport: Transport,
    /// How points are encoded.
    pub protocol: Protocol,
    /// How bytes are compressed.
    pub packing: Packing,
    /// Whether connections are encrypted, and how.
    pub encryption: Option<Encryption>,
    /// Number of connections. A name always uses the same one.
    pub connections: u16,
    /// Only names that match are sent to this target.
    pub matcher: Matcher,
    /// Whether points are queued on disk while the target is unreachable.
    pub spools: bool,
}

impl Target {
    /// A target that receives lines over one connection.
    pub fn new(node: Node) -> Self {
        Self {
            node,
            transport: Transport::Tcp,
            protocol: Protocol::Line,
            packing: Packing::Plain,
            encryption: None,
            connections: 1,
            matcher: Matcher::everything(),
            spools: true,
        }
    }

    /// Bytes that a connection needs for compression and encryption.
    pub(crate) fn wrapping_bytes(&self) -> u64 {
        let is_plain = self.packing == Packing::Plain && self.encryption.is_none();
        if is_plain { 0 } else { PACKED_BYTES }
    }

    /// The target's name in carbon's own metrics: host, port and instance, with dots replaced by
    /// underscores.
    pub fn metric_name(&self) -> String {
        let instance = self.node.instance.as_deref().unwrap_or("None");
        format!("{}:{}:{instance}", self.node.host, self.node.port).replace('.', "_")
    }
}

/// How a cluster chooses among its targets.
#[derive(Clone, Debug)]
pub enum Method {
    /// All of them.
    All,
    /// The target with the hash of the name, or another live one.
    AnyOf,
    /// The first target that is live.
    Failover,
    /// The first target whose matcher accepts the name.
    FirstMatch,
    /// By a hash ring.
    Ring {
        /// The kind of ring.
        kind: &'static Kind,
        /// Number of members that get each point.
        copies: usize,
        /// The rule that chooses the other replicas.
        rule: Rule,
        /// Whether a live member replaces one that is unreachable.
        moves: bool,
    },
    /// No target: points are discarded.
    Nowhere,
}

/// A group of targets that points are distributed over.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The cluster's name.
    pub name: String,
    /// How it chooses.
    pub method: Method,
    /// Indexes of its targets, in the order of the configuration.
    pub targets: Vec<usize>,
}

/// Sends points to clusters.
#[derive(Clone, Debug)]
pub struct Route {
    /// Only points whose names match are sent.
    pub matcher: Matcher,
    /// A condition on the data of a point. Points that do not meet it are not sent.
    pub validation: Option<Validation>,
    /// Indexes of the clusters.
    pub clusters: Vec<usize>,
    /// Whether points that match skip the stages that follow.
    pub stops: bool,
    /// Rewrites of the ring key. Each rewrite that changes the name gives one key that rings hash. If
    /// none does, they hash the name.
    pub keys: Vec<Rewrite>,
}

/// A condition on the data of a point: the text after its name, such as `1.5 1600000000`. With formats
/// whose rules do not see tags, the data begins with the tags, without their leading `;`.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The condition on the data.
    pub data: Matcher,
    /// Whether a point that fails is logged.
    pub logs: bool,
}

impl Route {
    /// Returns whether a point whose data failed skips the stages that follow. A route without clusters
    /// is a condition on every point that it matches.
    pub(crate) fn stops_invalid(&self) -> bool {
        self.stops || self.clusters.is_empty()
    }
}

/// One step of a point's path through the relay.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Ends the path of points whose names match.
    Block(Matcher),
    /// Ends the path of points whose names do not match.
    Allow(Matcher),
    /// Changes names.
    Rewrite(Rewrite),
    /// Computes series from points.
    Aggregate(aggregate::Aggregate),
    /// Sorts the tags of a name into the order in which carbon stores them.
    Canonical,
    /// Sends points to clusters.
    Route(Route),
}

/// The relay's own metrics.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The prefix of their names. `HOST` stands for the host's name.
    pub prefix: String,
    /// The interval between two points; `None` turns the metrics off.
    pub every: Option<Duration>,
    /// Indexes of the clusters that they are sent to. Without it they pass the stages like other points.
    pub clusters: Option<Vec<usize>>,
}

impl Default for Statistics {
    fn default() -> Self {
        let every = Some(Duration::from_secs(60));
        Self { prefix: "carbon.relays.HOST".to_owned(), every, clusters: None }
    }
}

/// A line of a configuration file that has no effect here, or another effect than in the original
/// program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The text of the setting.
    pub what: String,
    /// Why it has no effect, or which effect it has instead.
    pub why: String,
    /// The consequence.
    pub weight: Weight,
}

/// The consequence of a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Points would be sent to other targets than by the original program. The relay does not start.
    Grave,
    /// The line is ignored.
    Ignored,
    /// The line is applied, but is probably a mistake.
    Doubtful,
}

impl Note {
    /// Returns whether the relay does not start with this line.
    pub fn is_grave(&self) -> bool {
        self.weight == Weight::Grave
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.weight {
            Weight::Grave => " cannot be honoured",
            Weight::Ignored => " is ignored",
            Weight::Doubtful => "",
        };
        write!(f, "{}:{}: '{}'{kind}: {}", self.file, self.line, self.what, self.why)
    }
}

/// The configuration of a relay.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// The addresses that the relay listens on.
    pub listeners: Vec<Listener>,
    /// All targets.
    pub targets: Vec<Target>,
    /// All clusters.
    pub clusters: Vec<Cluster>,
    /// The stages that a point passes, in order.
    pub stages: Vec<Stage>,
    /// The relay's own metrics.
    pub statistics: Statistics,
    /// Bytes of a target's queue in memory.
    pub queue_bytes: Option<u64>,
    /// Whether names are cleaned before the stages run, as carbon-c-relay does.
    pub cleans_names: bool,
    /// The directory of the queues on disk.
    pub spool_directory: Option<String>,
    /// Settings that are not honoured.
    pub notes: Vec<Note>,
}

impl Routing {
    /// Returns the index of a target, which is added unless it exists.
    pub fn target(&mut self, target: Target) -> usize {
        match self.targets.iter().position(|own| *own == target) {
            Some(index) => index,
            None => {
                self.targets.push(target);
                self.targets.len() - 1
            }
        }
    }

    /// Returns the index of the cluster with this name.
    pub fn cluster(&self, name: &str) -> Option<usize> {
        self.clusters.iter().position(|own| own.name == name)
    }

    /// Adds a cluster and returns its index.
    pub fn add_cluster(&mut self, name: &str, method: Method, targets: Vec<usize>) -> usize {
        self.clusters.push(Cluster { name: name.to_owned(), method, targets });
        self.clusters.len() - 1
    }

    /// Returns the number of routes that send points to clusters.
    pub fn routes(&self) -> usize {
        let sends = |stage: &&Stage| matches!(stage, Stage::Route(route) if !route.clusters.is_empty());
        self.stages.iter().filter(sends).count()
    }

    /// Returns the members of a cluster as ring nodes.
    pub fn nodes(&self, cluster: &Cluster) -> Vec<Node> {
        cluster.targets.iter().map(|target| self.targets[*target].node.clone()).collect()
    }
}

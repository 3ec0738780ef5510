//! What a relay does, whichever program's configuration it was read from: listeners, targets, clusters, and
//! the stages that a point passes.
//!
//! **Invariants.** Indexes of targets, clusters and stages are those of this value's lists. A stage sees a
//! point after those before it.

pub mod aggregate;
pub mod matcher;
pub mod rewrite;
pub mod template;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use matcher::Matcher;
use rewrite::Rewrite;
pub use template::NAME_BYTES_MAX;

use crate::connect::PACKED_BYTES;
use crate::node::Node;
use crate::replicas::Rule;
use crate::ring::Kind;

/// How points are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// A line for each.
    #[default]
    Line,
    /// Lists in Python's pickle, each behind its length.
    Pickle,
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// A connection.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// How bytes are compressed on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// One stream of gzip for a connection.
    Gzip,
    /// One frame of lz4.
    Lz4,
    /// One frame of zstd.
    Zstd,
}

impl Packing {
    /// Names in configuration files.
    pub const NAMES: [(&str, Self); 4] =
        [("plain", Self::Plain), ("gzip", Self::Gzip), ("lz4", Self::Lz4), ("zstd", Self::Zstd)];

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, packing)| *packing)
    }
}

/// Files by which a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Encryption {
    /// The certificates that a target's must come from; without it those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The certificate and the key that are shown to a target that asks for them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Where points come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port.
    pub address: String,
    /// How bytes travel.
    pub transport: Transport,
    /// How points are written.
    pub protocol: Protocol,
}

/// Where points go.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host, port and instance.
    pub node: Node,
    /// How bytes travel.
    pub transport: Transport,
    /// How points are written.
    pub protocol: Protocol,
    /// How bytes are compressed.
    pub packing: Packing,
    /// Whether connections are encrypted, and how.
    pub encryption: Option<Encryption>,
    /// Connections that share the names: a name always takes the same one.
    pub connections: u16,
    /// Names that it takes; others are not sent there.
    pub matcher: Matcher,
    /// Whether points wait on disk while it is away.
    pub spools: bool,
}

impl Target {
    /// A target of lines over one connection.
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

    /// Bytes that a connection takes for compression and encryption.
    pub(crate) fn wrapping_bytes(&self) -> u64 {
        let is_plain = self.packing == Packing::Plain && self.encryption.is_none();
        if is_plain { 0 } else { PACKED_BYTES }
    }

    /// The name of carbon's own metrics: host, port and instance with underscores for dots.
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
    /// One by the hash of the name, or another one that is live.
    AnyOf,
    /// The first that is live.
    Failover,
    /// The first whose matcher takes the name.
    FirstMatch,
    /// By a ring.
    Ring {
        /// Which.
        kind: &'static Kind,
        /// Members that hold a name.
        copies: usize,
        /// How replicas are chosen.
        rule: Rule,
        /// Whether another live member takes what is for one that is away.
        moves: bool,
    },
    /// Nowhere: points end here.
    Nowhere,
}

/// Targets that a point is distributed over.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// How it chooses.
    pub method: Method,
    /// Its targets, in the order of the configuration.
    pub targets: Vec<usize>,
}

/// Sends points to clusters.
#[derive(Clone, Debug)]
pub struct Route {
    /// Names it is for.
    pub matcher: Matcher,
    /// What the data of points must be; those of others are not sent.
    pub validation: Option<Validation>,
    /// The clusters.
    pub clusters: Vec<usize>,
    /// Whether points that it took go no further.
    pub stops: bool,
    /// What rings hash in place of the name: every new name that a rule here gives; the name if none does.
    pub keys: Vec<Rewrite>,
}

/// A condition on the data of a point: the text after its name, `1.5 1600000000`. Where rules do not see
/// tags, the data begins with them, without their first `;`.
#[derive(Clone, Debug)]
pub struct Validation {
    /// What must be found in the data.
    pub data: Matcher,
    /// Whether a point that fails is logged.
    pub logs: bool,
}

impl Route {
    /// Whether a point whose data failed goes no further: a route without clusters is a condition on all of
    /// the points that it is for.
    pub(crate) fn stops_invalid(&self) -> bool {
        self.stops || self.clusters.is_empty()
    }
}

/// What a point passes.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Ends points whose names match.
    Block(Matcher),
    /// Ends points whose names do not match.
    Allow(Matcher),
    /// Changes names.
    Rewrite(Rewrite),
    /// Makes one series of many.
    Aggregate(aggregate::Aggregate),
    /// Gives tagged names the order of tags that carbon stores them in.
    Canonical,
    /// Sends points to clusters.
    Route(Route),
}

/// The relay's own metrics.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// What their names begin with; `HOST` stands for the host.
    pub prefix: String,
    /// Time between two; none at all without.
    pub every: Option<Duration>,
    /// Clusters that they go to; without, they pass the stages as others do.
    pub clusters: Option<Vec<usize>>,
}

impl Default for Statistics {
    fn default() -> Self {
        let every = Some(Duration::from_secs(60));
        Self { prefix: "carbon.relays.HOST".to_owned(), every, clusters: None }
    }
}

/// A line of a configuration file that does not do here what it does in its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub what: String,
    /// Why it is not honoured, or what it does instead.
    pub why: String,
    /// Whether points would go elsewhere than there, so that the relay does not start.
    pub is_grave: bool,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_grave { "cannot be honoured" } else { "is ignored" };
        write!(f, "{}:{}: '{}' {kind}: {}", self.file, self.line, self.what, self.why)
    }
}

/// What a relay does.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// Where points come in.
    pub listeners: Vec<Listener>,
    /// Where points may go.
    pub targets: Vec<Target>,
    /// How they are distributed.
    pub clusters: Vec<Cluster>,
    /// What a point passes, in order.
    pub stages: Vec<Stage>,
    /// The relay's own metrics.
    pub statistics: Statistics,
    /// Bytes of a target's queue in memory.
    pub queue_bytes: Option<u64>,
    /// Whether names are cleaned before anything sees them, as carbon-c-relay does.
    pub cleans_names: bool,
    /// Where points wait on disk.
    pub spool_directory: Option<String>,
    /// Lines that are not honoured.
    pub notes: Vec<Note>,
}

impl Routing {
    /// The index of a target, which is added unless it is there.
    pub fn target(&mut self, target: Target) -> usize {
        match self.targets.iter().position(|own| *own == target) {
            Some(index) => index,
            None => {
                self.targets.push(target);
                self.targets.len() - 1
            }
        }
    }

    /// The index of the cluster of a name.
    pub fn cluster(&self, name: &str) -> Option<usize> {
        self.clusters.iter().position(|own| own.name == name)
    }

    /// Adds a cluster; gives its index.
    pub fn add_cluster(&mut self, name: &str, method: Method, targets: Vec<usize>) -> usize {
        self.clusters.push(Cluster { name: name.to_owned(), method, targets });
        self.clusters.len() - 1
    }

    /// Members of a cluster as rings see them.
    pub fn nodes(&self, cluster: &Cluster) -> Vec<Node> {
        cluster.targets.iter().map(|target| self.targets[*target].node.clone()).collect()
    }
}

//! The load balancer in front of the nodes: the own one, or HAProxy.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::balancer::Balancer;
use super::haproxy::HaProxy;

/// The address of queries, which is also that of the explorer.
const QUERIES: ([u8; 4], u16) = ([127, 0, 0, 1], 3100);
const PUSHES: ([u8; 4], u16) = ([127, 0, 0, 1], 3101);

pub enum Front {
    Own { pushes: Balancer, queries: Balancer },
    HaProxy(HaProxy),
}

impl Front {
    /// Starts the own load balancer, on free ports if the usual ones are in use.
    pub fn own(nodes: &[SocketAddr]) -> Result<Self> {
        let pushes = Balancer::start(PUSHES.into(), "/ready?for=push", nodes)?;
        Ok(Self::Own { pushes, queries: Balancer::start(QUERIES.into(), "/ready?for=query", nodes)? })
    }

    /// Starts HAProxy.
    pub fn haproxy(nodes: &[SocketAddr], folder: &Path) -> Result<Self> {
        Ok(Self::HaProxy(HaProxy::start(nodes, folder)?))
    }

    pub fn pushes(&self) -> SocketAddr {
        match self {
            Self::Own { pushes, .. } => pushes.address,
            Self::HaProxy(haproxy) => haproxy.address,
        }
    }

    pub fn queries(&self) -> SocketAddr {
        match self {
            Self::Own { queries, .. } => queries.address,
            Self::HaProxy(haproxy) => haproxy.address,
        }
    }

    /// Whether exactly the wanted nodes are used, for pushes and for queries.
    pub fn sees(&self, wanted: &[bool]) -> Result<bool> {
        match self {
            Self::Own { pushes, queries } => Ok(pushes.ready() == wanted && queries.ready() == wanted),
            Self::HaProxy(haproxy) => haproxy.sees(wanted),
        }
    }

    /// The number of pushes that are under way to a node.
    pub fn open_pushes(&self, node: usize) -> Result<usize> {
        match self {
            Self::Own { pushes, .. } => Ok(pushes.open(node)),
            Self::HaProxy(haproxy) => haproxy.open_pushes(node),
        }
    }
}

//! Chooses the members that get a name: the ring's first choice, and replicas by one of four rules.
//!
//! **Invariants.** A choice depends only on the name, the ring, and the members and their order. No more
//! members are chosen than requested. A member is chosen twice only where carbon does that too.

use std::ops::ControlFlow;

use crate::node::Node;
use crate::ring::{Kind, Ring, RingError};

/// The rule that chooses replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rule {
    /// The next members of the ring, as the ring's original program chooses them.
    #[default]
    Ring,
    /// The next members of the ring on other hosts: carbon's `DIVERSE_REPLICAS`.
    Hosts,
    /// The members that follow in the configuration; after the last comes the first.
    List,
    /// The members that follow in the configuration and are in zones without a replica. If there are too
    /// few zones, the next members of the configuration fill up.
    Zones,
}

impl Rule {
    /// Every rule with its name in configuration files and a description.
    pub const NAMES: [(&'static str, Self, &'static str); 4] = [
        ("ring", Self::Ring, "the next members on the ring, as the original chooses them"),
        ("hosts", Self::Hosts, "the next members on the ring that are on other hosts (`DIVERSE_REPLICAS`)"),
        ("list", Self::List, "the members that follow in the configuration: 1 to 2, ..., the last to 1"),
        ("zones", Self::Zones, "the members that follow in the configuration and are in other zones"),
    ];

    /// Returns the rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _, _)| *own == name).map(|(_, rule, _)| *rule)
    }
}

/// A ring, its members, and the number of members that get a name.
pub struct Distribution {
    nodes: Vec<Node>,
    ring: Box<dyn Ring>,
    copies: usize,
    rule: Rule,
}

impl Distribution {
    /// Builds the ring of the members in their order; `copies` includes the first choice.
    pub fn new(kind: &Kind, nodes: Vec<Node>, copies: usize, rule: Rule) -> Result<Self, RingError> {
        let ring = (kind.build)(&nodes)?;
        Ok(Self { nodes, ring, copies, rule })
    }

    /// Returns the members.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the ring.
    pub fn ring(&self) -> &dyn Ring {
        &*self.ring
    }

    /// Writes the members that get a name to `chosen`, the first choice first.
    pub fn choose(&self, name: &[u8], chosen: &mut Vec<usize>) {
        chosen.clear();
        if self.copies == 0 {
            return;
        }
        let copies = if matches!(self.rule, Rule::Ring | Rule::Hosts) { self.copies } else { 1 };
        self.ring.offer(name, &mut |node| {
            let host = &self.nodes[node].host;
            let is_taken =
                self.rule == Rule::Hosts && chosen.iter().any(|other| self.nodes[*other].host == *host);
            if !is_taken {
                chosen.push(node);
            }
            if chosen.len() >= copies { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match self.rule {
            Rule::Ring | Rule::Hosts => {}
            Rule::List => self.follow(chosen, |_, _| true),
            Rule::Zones => {
                let is_apart = |node: usize, chosen: &[usize]| {
                    let zone = &self.nodes[node].zone;
                    !chosen.iter().any(|other| self.nodes[*other].zone == *zone)
                };
                self.follow(chosen, is_apart);
                self.follow(chosen, |_, _| true);
            }
        }
    }

    /// Adds members that follow the first choice in the configuration until there are enough copies.
    fn follow(&self, chosen: &mut Vec<usize>, fits: impl Fn(usize, &[usize]) -> bool) {
        let Some(first) = chosen.first().copied() else { return };
        for step in 1..self.nodes.len() {
            if chosen.len() >= self.copies {
                return;
            }
            let node = (first + step) % self.nodes.len();
            if !chosen.contains(&node) && fits(node, chosen) {
                chosen.push(node);
            }
        }
    }

    /// Returns the next live member of the ring that is not in `avoid`.
    pub fn substitute(&self, name: &[u8], avoid: &[usize], is_live: &dyn Fn(usize) -> bool) -> Option<usize> {
        let mut found = None;
        self.ring.offer(name, &mut |node| {
            if avoid.contains(&node) || !is_live(node) {
                return ControlFlow::Continue(());
            }
            found = Some(node);
            ControlFlow::Break(())
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(zones: &[&str]) -> Vec<Node> {
        let node = |(index, zone): (usize, &&str)| Node {
            host: format!("10.0.0.{}", index % 4),
            port: 2003,
            instance: Some(index.to_string()),
            zone: Some((*zone).to_owned()),
        };
        zones.iter().enumerate().map(node).collect()
    }

    fn choices(rule: Rule, copies: usize, zones: &[&str]) -> Vec<Vec<usize>> {
        let kind = Kind::of("carbon_ch").unwrap();
        let distribution = Distribution::new(kind, nodes(zones), copies, rule).unwrap();
        let choose = |name: usize| {
            let mut chosen = Vec::new();
            distribution.choose(format!("servers.web{name}.cpu").as_bytes(), &mut chosen);
            chosen
        };
        (0..200).map(choose).collect()
    }

    #[test]
    fn replicas_by_list_are_the_next_members() {
        for chosen in choices(Rule::List, 2, &["a", "a", "b", "b", "c"]) {
            assert_eq!(chosen[1], (chosen[0] + 1) % 5);
        }
        assert!(choices(Rule::List, 9, &["a", "b"]).iter().all(|chosen| chosen.len() == 2));
    }

    #[test]
    fn replicas_are_in_different_zones_while_there_are_enough() {
        let zones = ["a", "a", "b", "b", "c"];
        for chosen in choices(Rule::Zones, 3, &zones) {
            let mut own: Vec<&str> = chosen.iter().map(|node| zones[*node]).collect();
            own.sort_unstable();
            assert_eq!(own, ["a", "b", "c"]);
        }
        for chosen in choices(Rule::Zones, 5, &zones) {
            assert_eq!(chosen.len(), 5, "if there are too few zones, the list fills up");
        }
    }

    #[test]
    fn diverse_replicas_are_on_other_hosts() {
        for chosen in choices(Rule::Hosts, 4, &["a"; 12]) {
            let mut hosts: Vec<usize> = chosen.iter().map(|node| node % 4).collect();
            hosts.sort_unstable();
            assert_eq!(hosts, [0, 1, 2, 3]);
        }
    }
}

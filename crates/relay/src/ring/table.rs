//! The table of all rings, from which the reference page, the names in configuration files and the tests
//! are made.

use super::{
    Ring, RingError, carbon_carbon_ch, carbon_fast, carbon_fnv1a_ch, carbon_mmh3_ch, jump_fnv1a_ch,
    relay_carbon_ch, relay_fnv1a_ch, relay_ng_v1, relay_ng_v2,
};
use crate::node::Node;

/// Builds a ring of nodes.
pub type Build = fn(&[Node]) -> Result<Box<dyn Ring>, RingError>;

/// A kind of ring.
pub struct Kind {
    /// The program that the ring comes from.
    pub origin: &'static str,
    /// The name of the ring in that program.
    pub name: &'static str,
    /// What it hashes and what to consider, for the reference page.
    pub about: &'static str,
    /// Builds the ring.
    pub build: Build,
}

const fn ring(origin: &'static str, name: &'static str, build: Build, about: &'static str) -> Kind {
    Kind { origin, name, about, build }
}

/// Every kind of ring.
pub static RINGS: &[Kind] = &[
    ring(
        "carbon",
        "carbon_ch",
        carbon_carbon_ch::build,
        "MD5 of host and instance, without the port; if two members have the same position, the later \
                one in the list moves to the next free position",
    ),
    ring(
        "carbon",
        "fnv1a_ch",
        carbon_fnv1a_ch::build,
        "FNV-1a of the instance only; without instances, the positions of all members are adjacent, \
                and one member gets nearly all names",
    ),
    ring("carbon", "mmh3_ch", carbon_mmh3_ch::build, "MurmurHash3 of host and instance over 32 bits"),
    ring(
        "carbon-fast",
        "carbon_ch",
        carbon_fast::carbon_ch,
        "`fast-hashing` with MD5; a change of the members moves most names",
    ),
    ring("carbon-fast", "fnv1a_ch", carbon_fast::fnv1a_ch, "`fast-hashing` with FNV-1a of host and instance"),
    ring("carbon-fast", "mmh3_ch", carbon_fast::mmh3_ch, "`fast-hashing` with MurmurHash3, its default"),
    ring(
        "carbon-c-relay",
        "carbon_ch",
        relay_carbon_ch::build,
        "as in carbon, but a position of several members belongs to the first by host and instance",
    ),
    ring(
        "carbon-c-relay",
        "fnv1a_ch",
        relay_fnv1a_ch::build,
        "FNV-1a of host and port, or of the instance if there is one",
    ),
    ring(
        "carbon-c-relay",
        "jump_fnv1a_ch",
        jump_fnv1a_ch::build,
        "jump hashing over members in the order of their instances; balanced, but only the last \
                member can be removed without moving names of others",
    ),
    ring(
        "carbon-relay-ng",
        "consistentHashing",
        relay_ng_v1::build,
        "carbon's ring before 2013: a position of several members belongs to the first by host",
    ),
    ring(
        "carbon-relay-ng",
        "consistentHashing-v2",
        relay_ng_v2::build,
        "nearly carbon's, but positions wrap around, and positions of the member that is being added \
                do not count as taken",
    ),
];

impl Kind {
    /// Returns the kind with this program and name.
    pub fn named(origin: &str, name: &str) -> Option<&'static Self> {
        RINGS.iter().find(|kind| kind.origin == origin && kind.name == name)
    }

    /// Returns the kind that a text like `carbon-c-relay/fnv1a_ch` names. The default program is carbon.
    pub fn of(text: &str) -> Option<&'static Self> {
        let (origin, name) = text.split_once('/').unwrap_or(("carbon", text));
        Self::named(origin, name)
    }
}

/// Returns the table of rings as it is in `docs/relay.md`.
pub fn rings_page() -> String {
    let mut page = String::from("| program | ring | what it hashes, and what to consider |\n|---|---|---|\n");
    for kind in RINGS {
        page.push_str(&format!("| {} | `{}` | {} |\n", kind.origin, kind.name, kind.about));
    }
    page
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.origin, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_relay_contains_the_table_of_rings() {
        let page = include_str!("../../../../docs/relay.md");
        assert!(page.contains(&rings_page()), "docs/relay.md must contain:\n{}", rings_page());
    }

    #[test]
    fn every_ring_is_found_by_name_and_refuses_an_empty_list() {
        for kind in RINGS {
            let found = Kind::of(&format!("{}/{}", kind.origin, kind.name)).unwrap();
            assert_eq!(format!("{found:?}"), format!("{kind:?}"));
            assert!((kind.build)(&[]).is_err());
        }
        assert_eq!(Kind::of("mmh3_ch").unwrap().origin, "carbon");
    }

    #[test]
    fn rings_up_to_the_limit_are_built_and_larger_ones_refused() {
        let node = |index: usize| Node { host: format!("h{index}"), port: 1, ..Node::default() };
        let mut nodes: Vec<Node> = (0..super::super::NODES_MAX).map(node).collect();
        for kind in RINGS {
            let made = (kind.build)(&nodes);
            // 102,400 positions do not fit into 65,536 if each must be free.
            let is_full = matches!(made, Err(RingError::Full(_)));
            assert_eq!(is_full, kind.name == "consistentHashing-v2", "{kind:?}");
        }
        nodes.push(node(9_999));
        for kind in RINGS {
            assert!(matches!((kind.build)(&nodes), Err(RingError::TooMany(_))), "{kind:?}");
        }
    }

    /// Fourteen servers for which a relay and a repair tool placed names differently.
    #[test]
    fn rings_of_fourteen_servers_differ_at_taken_positions() {
        let hosts = [
            "34.114", "39.104", "40.161", "35.158", "37.70", "40.126", "33.78", "39.19", "42.66", "34.131",
            "38.55", "41.75", "32.8", "37.165",
        ];
        let node = |host: &&str| Node { host: format!("10.20.{host}"), port: 12003, ..Node::default() };
        let nodes: Vec<Node> = hosts.iter().map(node).collect();
        let ring = |name: &str| (Kind::of(name).unwrap().build)(&nodes).unwrap();
        let carbon = ring("carbon_ch");
        let at = |position: i64| {
            let found = carbon.positions().into_iter().find(|(own, _)| *own == position);
            found.map(|(_, member)| hosts[member])
        };
        assert_eq!([59_417, 59_418, 59_482].map(at), [Some("40.126"), Some("34.131"), Some("40.126")]);
        for (name, expected) in
            [("carbon-relay-ng/consistentHashing", 154), ("carbon-relay-ng/consistentHashing-v2", 2)]
        {
            let other = ring(name);
            let differing = (0..65_536).filter(|position| carbon.at(*position) != other.at(*position));
            assert_eq!(differing.count(), expected, "{name}");
        }
    }
}

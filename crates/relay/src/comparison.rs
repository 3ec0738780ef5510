//! Compares where two configurations send names, for the command `diff`, and counts how many names
//! reached each cluster: a comparison says nothing about a cluster that no name reached.

use std::collections::BTreeMap;

use crate::lookup::{Destinations, lookup};
use crate::model::matcher::Matcher;
use crate::model::{Cluster, Routing, Stage, Target};
use crate::router::{Router, Scratch};

/// Number of generated names, unless there are more than a thousand different routes.
pub const GENERATED: u64 = 65_536;
/// The smallest number of names that are generated for a route.
const OF_ROUTE_MIN: u64 = 64;
/// Fewer names that reach a changed cluster give a warning, unless they are a tenth of all.
const FEW: u64 = 100;

/// Two configurations, and counts of the names that were compared.
pub struct Comparison<'a> {
    routers: [&'a Router; 2],
    scratch: Scratch,
    names: u64,
    reached: [BTreeMap<String, u64>; 2],
}

/// The number of names that reached a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The name of the cluster.
    pub cluster: String,
    /// The names that reached it, in each configuration.
    pub names: [u64; 2],
    /// Whether the clusters of this name differ, or only one configuration has it.
    pub is_changed: bool,
    /// Whether so few names reached it that their targets say little about the change.
    pub is_doubtful: bool,
}

impl<'a> Comparison<'a> {
    /// Compares two configurations.
    pub fn new(one: &'a Router, other: &'a Router) -> Self {
        Self { routers: [one, other], scratch: Scratch::default(), names: 0, reached: Default::default() }
    }

    /// Returns the destinations of a name in each configuration.
    pub fn name(&mut self, name: &str) -> [Destinations; 2] {
        self.names += 1;
        let found = self.routers.map(|router| lookup(router, name.as_bytes(), &mut self.scratch));
        for (place, destinations) in found.iter().enumerate() {
            for cluster in &destinations.clusters {
                let cluster = &self.routers[place].routing().clusters[*cluster].name;
                match self.reached[place].get_mut(cluster) {
                    Some(count) => *count += 1,
                    None => drop(self.reached[place].insert(cluster.clone(), 1)),
                }
            }
        }
        found
    }

    /// Passes generated names to `each`. Every route of both configurations gets names that it matches,
    /// where these can be derived from its expression.
    pub fn generated(&self, mut each: impl FnMut(&str)) {
        let mut matchers = vec![Matcher::everything()];
        for matcher in self.routers.iter().flat_map(|router| matchers_of(router.routing())) {
            if !matchers.contains(&matcher) {
                matchers.push(matcher);
            }
        }
        let of_each = (GENERATED / matchers.len() as u64).max(OF_ROUTE_MIN);
        for matcher in &matchers {
            for number in 0..of_each {
                // Without a name for the first number there is none for the others.
                let Some(name) = matcher.example(number) else { break };
                if let Ok(name) = std::str::from_utf8(&name) {
                    each(name);
                }
            }
        }
    }

    /// Returns the number of compared names.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Returns how many names reached each cluster of either configuration, in the order of names.
    pub fn reach(&self) -> Vec<Reach> {
        let mut clusters = BTreeMap::<&str, [Option<(&Routing, &Cluster)>; 2]>::new();
        for (place, router) in self.routers.iter().enumerate() {
            for cluster in &router.routing().clusters {
                clusters.entry(&cluster.name).or_default()[place] = Some((router.routing(), cluster));
            }
        }
        let reach = |(name, both): (&str, [Option<(&Routing, &Cluster)>; 2])| {
            let names = [0, 1].map(|place| self.reached[place].get(name).copied().unwrap_or(0));
            let is_changed = match both {
                [Some(one), Some(other)] => members(one) != members(other),
                _ => true,
            };
            let most = names[0].max(names[1]);
            let is_few = most == 0 || (most < FEW && most < self.names / 10);
            Reach { cluster: name.to_owned(), names, is_changed, is_doubtful: is_changed && is_few }
        };
        clusters.into_iter().map(reach).collect()
    }
}

/// What decides which target a name of the cluster gets.
fn members<'a>((routing, cluster): (&'a Routing, &'a Cluster)) -> (String, Vec<&'a Target>) {
    let targets = cluster.targets.iter().map(|target| &routing.targets[*target]);
    (format!("{:?}", cluster.method), targets.collect())
}

/// The conditions that a name must meet to be sent or aggregated.
fn matchers_of(routing: &Routing) -> impl Iterator<Item = Matcher> {
    routing.stages.iter().filter_map(|stage| match stage {
        Stage::Route(route) => Some(route.matcher.clone()),
        Stage::Aggregate(aggregate) => Some(aggregate.matcher.clone().with(aggregate.expressions.clone())),
        Stage::Block(_) | Stage::Allow(_) | Stage::Rewrite(_) | Stage::Canonical => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Format, read};

    fn router(text: &str) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("relay.conf");
        std::fs::write(&path, text).unwrap();
        Router::new(read(&path, Some(Format::CarbonCRelay), None).unwrap()).unwrap()
    }

    fn ring(last: &str, route: &str) -> Router {
        router(&format!(
            "cluster ring carbon_ch h1:1 h2:1 {last};\ncluster rest forward h9:1;\n\
             match {route} send to ring stop;\nmatch * send to rest;"
        ))
    }

    /// The generated names matched no such route, so a replaced member moved none of them.
    #[test]
    fn generated_names_reach_routes_with_expressions() {
        let (one, other) = (ring("h3:1", r"^servers\."), ring("h4:1", r"^servers\."));
        let mut comparison = Comparison::new(&one, &other);
        let mut names = Vec::new();
        comparison.generated(|name| names.push(name.to_owned()));
        let moved = names.iter().filter(|name| {
            let [one, other] = comparison.name(name);
            one.targets != other.targets
        });
        assert!(moved.count() > 5_000);
        let reach = comparison.reach();
        let changed: Vec<_> = reach.iter().map(|one| (one.cluster.as_str(), one.is_changed)).collect();
        assert_eq!(changed, [("rest", false), ("ring", true)]);
        assert!(reach.iter().all(|one| one.names[0] > 10_000 && !one.is_doubtful), "{reach:?}");
    }

    #[test]
    fn a_changed_cluster_that_few_names_reach_is_doubtful() {
        let (one, other) = (ring("h3:1", r"^servers\."), ring("h4:1", r"^servers\."));
        let mut comparison = Comparison::new(&one, &other);
        (0..1_000).for_each(|number| drop(comparison.name(&format!("made.up.name{number}"))));
        let doubtful = |comparison: &Comparison<'_>| {
            let reach = comparison.reach().into_iter().filter(|one| one.is_doubtful);
            reach.map(|one| (one.cluster, one.names)).collect::<Vec<_>>()
        };
        assert_eq!(doubtful(&comparison), [("ring".to_owned(), [0, 0])]);
        (0..200).for_each(|number| drop(comparison.name(&format!("servers.{number}"))));
        assert_eq!(doubtful(&comparison), []);
    }
}

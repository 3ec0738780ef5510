//! Finds the destinations of names without sending anything, for the commands `lookup` and `diff`.

use crate::clean::clean;
use crate::model::aggregate::{Aggregate, Output};
use crate::model::{Stage, Validation};
use crate::router::{End, RouteSink, Router, Scratch};

/// The destinations of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Targets, each with the name that it gets.
    pub targets: Vec<(String, String)>,
    /// Indexes of the clusters that it is sent to, itself or as part of a computed series.
    pub clusters: Vec<usize>,
    /// Computed series that the name contributes to.
    pub computed: Vec<String>,
    /// Why its path ended, if a stage ended it.
    pub end: Option<End>,
}

struct Collect<'a> {
    router: &'a Router,
    found: Destinations,
}

impl RouteSink for Collect<'_> {
    fn is_live(&self, _target: usize) -> bool {
        true
    }

    /// A name alone has no data. It is routed like a point with valid data.
    fn is_valid(&mut self, _validation: &Validation, _name: &[u8]) -> bool {
        true
    }

    fn reached(&mut self, cluster: usize) {
        if !self.found.clusters.contains(&cluster) {
            self.found.clusters.push(cluster);
        }
    }

    fn send(&mut self, target: usize, name: &[u8]) {
        let target = self.router.routing().targets[target].node.to_string();
        self.found.targets.push((target, String::from_utf8_lossy(name).into_owned()));
    }

    fn aggregate(&mut self, stage: usize, _compute: usize, name: &[u8]) {
        if let Stage::Aggregate(Aggregate { output: Output::Clusters(clusters), .. }) =
            &self.router.routing().stages[stage]
        {
            clusters.iter().for_each(|cluster| self.reached(*cluster));
        }
        self.found.computed.push(String::from_utf8_lossy(name).into_owned());
    }

    fn ended(&mut self, end: End) {
        self.found.end = Some(end);
    }
}

/// Finds the destinations of a name while every target is live.
pub fn lookup(router: &Router, name: &[u8], scratch: &mut Scratch) -> Destinations {
    let mut collect = Collect { router, found: Destinations::default() };
    match router.routing().cleans_names {
        true => {
            let mut cleaned = Vec::new();
            let end = clean(name, &mut cleaned);
            router.route(0, &cleaned[..end], scratch, &mut collect);
        }
        false => router.route(0, name, scratch, &mut collect),
    }
    collect.found
}

//! Routes a name: runs the stages of a routing for one name.
//!
//! **Invariants.** Stages run in order, each at most once. Each route names a target at most once.
//! Routing never waits and keeps no state.

use sandur_model::GraphiteName;

use crate::hash::fnv1a::fnv1a_32_signed;
use crate::hash::jump::{bucket, rehash};
use crate::model::aggregate::{Aggregate, Closing};
use crate::model::{Cluster, Method, Route, Routing, Stage, Validation};
use crate::replicas::Distribution;
use crate::ring::RingError;

/// A cluster whose members cannot form a ring.
#[derive(Debug, thiserror::Error)]
#[error("cluster '{cluster}': {reason}")]
pub struct BadCluster {
    cluster: String,
    reason: RingError,
}

/// Receives the decisions of the router while it runs the stages for one point.
pub trait RouteSink {
    /// Returns whether a target accepts points now.
    fn is_live(&self, target: usize) -> bool;
    /// Returns whether the data of the point meets a route's condition; `name` is the point's name at
    /// this stage.
    fn is_valid(&mut self, validation: &Validation, name: &[u8]) -> bool;
    /// Notes that a route sends the point to a cluster.
    fn reached(&mut self, _cluster: usize) {}
    /// Sends the point to a target under this name.
    fn send(&mut self, target: usize, name: &[u8]);
    /// Adds the point to a computed series.
    fn aggregate(&mut self, stage: usize, compute: usize, name: &[u8]);
    /// Ends the path of the point.
    fn ended(&mut self, end: End);
}

/// Why a point was not sent, or not sent any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// A stage blocks its name.
    #[error("blocked")]
    Blocked,
    /// A stage does not allow its name.
    #[error("not allowed")]
    NotAllowed,
    /// Its data does not meet the condition of a stage.
    #[error("its data is not valid")]
    Invalid,
    /// A route sends it to a cluster without targets.
    #[error("sent nowhere")]
    Nowhere,
    /// No route matches its name.
    #[error("no route takes it")]
    Unrouted,
}

/// Buffers that are reused from one name to the next.
#[derive(Default)]
pub struct Scratch {
    name: Vec<u8>,
    other: Vec<u8>,
    key: Vec<u8>,
    chosen: Vec<usize>,
    targets: Vec<usize>,
}

/// A routing with its rings.
pub struct Router {
    routing: Routing,
    distributions: Vec<Option<Distribution>>,
}

impl Router {
    /// Builds the rings.
    pub fn new(routing: Routing) -> Result<Self, BadCluster> {
        let ring = |cluster: &Cluster| match cluster.method {
            Method::Ring { kind, copies, rule, .. } => {
                let made = Distribution::new(kind, routing.nodes(cluster), copies, rule);
                made.map(Some).map_err(|reason| BadCluster { cluster: cluster.name.clone(), reason })
            }
            _ => Ok(None),
        };
        let distributions = routing.clusters.iter().map(ring).collect::<Result<_, _>>()?;
        Ok(Self { routing, distributions })
    }

    /// Returns the routing that this was made from.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Returns the ring of a cluster.
    pub fn distribution(&self, cluster: usize) -> Option<&Distribution> {
        self.distributions.get(cluster)?.as_ref()
    }

    /// Runs the stages from index `first` on.
    pub fn route(&self, first: usize, name: &[u8], scratch: &mut Scratch, hands: &mut dyn RouteSink) {
        scratch.name.clear();
        scratch.name.extend_from_slice(name);
        let (mut was_sent, mut is_its_own_sum) = (false, false);
        for (index, stage) in self.routing.stages.iter().enumerate().skip(first) {
            if is_its_own_sum && !matches!(stage, Stage::Aggregate(_)) {
                return;
            }
            match stage {
                Stage::Block(matcher) if matcher.matches(&scratch.name) => {
                    return hands.ended(End::Blocked);
                }
                Stage::Allow(matcher) if !matcher.matches(&scratch.name) => {
                    return hands.ended(End::NotAllowed);
                }
                Stage::Block(_) | Stage::Allow(_) => {}
                Stage::Rewrite(rewrite) => {
                    if rewrite.apply(&scratch.name, &mut scratch.other) {
                        std::mem::swap(&mut scratch.name, &mut scratch.other);
                    }
                }
                Stage::Canonical => canonical(scratch),
                Stage::Aggregate(aggregate) => match take_part(index, aggregate, scratch, hands) {
                    Part::None => {}
                    Part::Taken => was_sent = true,
                    Part::Last => return,
                    Part::Itself => is_its_own_sum = true,
                },
                Stage::Route(route) if route.matcher.matches(&scratch.name) => {
                    let validation = route.validation.as_ref();
                    if validation.is_some_and(|own| !hands.is_valid(own, &scratch.name)) {
                        if route.stops_invalid() {
                            return hands.ended(End::Invalid);
                        }
                        continue;
                    }
                    let is_nowhere = self.follow(route, scratch, hands);
                    was_sent |= !route.clusters.is_empty();
                    if is_nowhere {
                        return hands.ended(End::Nowhere);
                    }
                    if route.stops {
                        break;
                    }
                }
                Stage::Route(_) => {}
            }
        }
        if !was_sent {
            hands.ended(End::Unrouted);
        }
    }

    /// Sends to a cluster directly, without running the stages.
    pub fn send_to(&self, cluster: usize, name: &[u8], scratch: &mut Scratch, hands: &mut dyn RouteSink) {
        scratch.targets.clear();
        self.choose(cluster, name, scratch, hands);
        scratch.targets.iter().for_each(|target| hands.send(*target, name));
    }

    /// Sends a point by a route. Returns true when its path ends there.
    fn follow(&self, route: &Route, scratch: &mut Scratch, hands: &mut dyn RouteSink) -> bool {
        let name = std::mem::take(&mut scratch.name);
        let mut is_nowhere = false;
        scratch.targets.clear();
        for cluster in &route.clusters {
            hands.reached(*cluster);
            if matches!(self.routing.clusters[*cluster].method, Method::Nowhere) {
                is_nowhere = true;
                continue;
            }
            let mut key = std::mem::take(&mut scratch.key);
            let mut has_key = false;
            for rule in &route.keys {
                if rule.apply(&name, &mut key) {
                    has_key = true;
                    self.choose(*cluster, &key, scratch, hands);
                }
            }
            scratch.key = key;
            if !has_key {
                self.choose(*cluster, &name, scratch, hands);
            }
        }
        for target in &scratch.targets {
            if self.routing.targets[*target].matcher.matches(&name) {
                hands.send(*target, &name);
            }
        }
        scratch.name = name;
        is_nowhere
    }

    /// Adds the targets that a cluster chooses for a key.
    fn choose(&self, cluster: usize, key: &[u8], scratch: &mut Scratch, hands: &dyn RouteSink) {
        let (Some(own), distribution) = (self.routing.clusters.get(cluster), self.distribution(cluster))
        else {
            return;
        };
        let mut add = |target: usize| {
            if !scratch.targets.contains(&target) {
                scratch.targets.push(target);
            }
        };
        match own.method {
            Method::All => own.targets.iter().copied().for_each(add),
            Method::Nowhere => {}
            Method::Failover => {
                let live = own.targets.iter().find(|target| hands.is_live(**target));
                live.or(own.targets.first()).copied().into_iter().for_each(add);
            }
            Method::FirstMatch => {
                let takes = |target: &&usize| self.routing.targets[**target].matcher.matches(key);
                own.targets.iter().find(takes).copied().into_iter().for_each(add);
            }
            Method::AnyOf => add(any_of(&own.targets, key, hands)),
            Method::Ring { moves, .. } => {
                let Some(distribution) = distribution else { return };
                distribution.choose(key, &mut scratch.chosen);
                for at in 0..scratch.chosen.len() {
                    let target = own.targets[scratch.chosen[at]];
                    if moves && !hands.is_live(target) {
                        let is_live = |node: usize| hands.is_live(own.targets[node]);
                        if let Some(other) = distribution.substitute(key, &scratch.chosen, &is_live) {
                            scratch.chosen[at] = other;
                        }
                    }
                    add(own.targets[scratch.chosen[at]]);
                }
            }
        }
    }
}

/// Chooses a target by the key's hash, as carbon-c-relay does. The names of an unreachable target are
/// distributed over the live ones.
fn any_of(targets: &[usize], key: &[u8], hands: &dyn RouteSink) -> usize {
    let hash = fnv1a_32_signed(key);
    let first = targets[hash as usize % targets.len().max(1)];
    if hands.is_live(first) {
        return first;
    }
    let live = targets.iter().filter(|target| hands.is_live(**target));
    match live.clone().count() {
        0 => first,
        count => live.clone().nth(bucket(rehash(u64::from(hash) | 1 << 40), count)).copied().unwrap_or(first),
    }
}

/// Brings a name with tags into canonical form. Names without tags are canonical already.
fn canonical(scratch: &mut Scratch) {
    let is_tagged = |name: &&str| name.contains([';', '{']);
    if let Some(name) = std::str::from_utf8(&scratch.name).ok().filter(is_tagged) {
        scratch.name = GraphiteName::parse(name).canonical().into_bytes();
    }
}

/// How an aggregation rule treats a point.
enum Part {
    None,
    Taken,
    Last,
    /// The computed series has the same name, so the point itself is not sent, as in carbon.
    Itself,
}

fn take_part(index: usize, aggregate: &Aggregate, scratch: &mut Scratch, hands: &mut dyn RouteSink) -> Part {
    if !aggregate.matcher.matches(&scratch.name) {
        return Part::None;
    }
    let groups = aggregate.expressions.iter().find_map(|expression| expression.captures(&scratch.name));
    let Some(groups) = groups else { return Part::None };
    let mut part = if aggregate.stops { Part::Last } else { Part::Taken };
    if matches!(aggregate.closing, Closing::Repeated { .. }) {
        // Carbon forwards the point in addition to aggregating it; a rule that ends it is a stage of its
        // own.
        part = Part::None;
    }
    for (number, compute) in aggregate.computes.iter().enumerate() {
        scratch.other.clear();
        if !compute.name.expand(&groups, &mut scratch.other) {
            continue;
        }
        hands.aggregate(index, number, &scratch.other);
        let is_same = scratch.other == scratch.name;
        if is_same && matches!(aggregate.closing, Closing::Repeated { .. }) {
            part = Part::Itself;
        }
    }
    part
}

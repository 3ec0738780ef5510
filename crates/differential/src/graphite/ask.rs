//! Requests: targets and other parameters.

use std::fmt::{self, Display, Formatter};

use super::expression::Expression;
use super::grammar::random_target;
use super::series::{LENGTH, NOW};
use crate::random::Random;

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The targets.
    pub targets: Vec<Expression>,
    /// The other parameters.
    pub others: Vec<(&'static str, String)>,
}

impl Ask {
    /// Returns all parameters.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let targets = self.targets.iter().map(|target| ("target".to_owned(), target.to_string()));
        let others = self.others.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let always = [("now".to_owned(), NOW.to_string()), ("format".to_owned(), "json".to_owned())];
        targets.chain(others).chain(always).collect()
    }

    /// Returns all targets as one text.
    pub fn text(&self) -> String {
        self.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns requests that are one step smaller.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        if self.targets.len() > 1 {
            for at in 0..self.targets.len() {
                let mut other = self.clone();
                other.targets.remove(at);
                smaller.push(other);
            }
        }
        for at in 0..self.others.len() {
            let mut other = self.clone();
            other.others.remove(at);
            smaller.push(other);
        }
        for (at, target) in self.targets.iter().enumerate() {
            smaller.extend(target.smaller().into_iter().map(|target| {
                let mut other = self.clone();
                other.targets[at] = target;
                other
            }));
        }
        smaller
    }
}

impl Display for Ask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.targets.iter().try_for_each(|target| write!(f, "\n    target = {target}"))?;
        self.others.iter().try_for_each(|(name, value)| write!(f, "\n    {name} = {value}"))
    }
}

/// Returns request number `index` of a seed.
pub fn random_ask(seed: u64, index: u64) -> Ask {
    let random = &mut Random::fork(seed, index);
    let count = if random.chance(90) { 1 } else { 2 };
    let targets = (0..count).map(|_| random_target(random)).collect();
    let mut others = Vec::new();
    let from = match random.below(4) {
        0 => (NOW - random.between(1, LENGTH + 1200)).to_string(),
        _ => random.pick(&["-1h", "-30min", "-10min", "-90min", "-2h", "-3h30min", "-59s"]).to_owned(),
    };
    others.push(("from", from));
    if random.chance(35) {
        let until = match random.below(3) {
            0 => (NOW - random.between(0, LENGTH / 2)).to_string(),
            _ => random.pick(&["now", "-5min", "-7min", "-1min"]).to_owned(),
        };
        others.push(("until", until));
    }
    if random.chance(25) {
        let most = ["1", "2", "3", "7", "20", "50", "100", "1000"];
        others.push(("maxDataPoints", random.pick(&most).to_owned()));
    }
    if random.chance(6) {
        let zones = ["America/New_York", "Asia/Kolkata", "Europe/Berlin", "Nowhere/City"];
        others.push(("tz", random.pick(&zones).to_owned()));
    }
    if random.chance(6) {
        others.push(("xFilesFactor", random.pick(&["0", "0.3", "0.5", "1"]).to_owned()));
    }
    if random.chance(5) {
        others.push(("noNullPoints", "1".to_owned()));
    }
    Ask { targets, others }
}

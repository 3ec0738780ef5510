//! Damages copies of stores: whatever happens to which object, no undamaged acknowledged row is lost,
//! and no damaged store is reported as sound.
//!
//! **Life of a run.** A few *bases* are made once: stores of every kind, with flushed and merged blocks,
//! rows in the WAL, checkpoints, a boundary, heartbeats, and writers that stopped, crashed and were
//! adopted. One was a directory; in two there were two processes that wrote at the same time. For each
//! base it is known which object contains which rows. A seed chooses a base and a kind of damage:
//! objects of one class are deleted, truncated, get a flipped bit, are swapped, or are replaced by an
//! earlier version; or the complete catalog is. Then the store is checked, started by as many processes
//! as wrote it, queried, left to garbage collection for hours, checked, repaired, started and queried
//! again.
//!
//! **Invariants.** Every query that gets an answer finds each row of an undamaged object exactly once.
//! No row is found twice, and none that was not written. After a repair, a start is never refused. If
//! the check reported the store as sound, it starts and every row is found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use sandur_catalog::{Repair, check, check_block};
use sandur_model::Signal;
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Intent, Store, StoreOptions};

use crate::damage_base::{Base, Objects};
use crate::node::Node;
use crate::row::Found;

/// How long an opened store is left alone before it is queried, so that dead writers are adopted.
const SETTLE: Duration = Duration::from_secs(180);
/// How long garbage collection runs: several times its grace period and interval.
const COLLECT: Duration = Duration::from_secs(2 * 3_600);

/// A kind of damage to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Delete,
    Truncate,
    Flip,
    Swap,
    Older,
}

const KINDS: [Kind; 5] = [Kind::Delete, Kind::Truncate, Kind::Flip, Kind::Swap, Kind::Older];

/// The counts of runs by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Number of runs.
    pub runs: u64,
    /// Number of starts that were refused.
    pub refused: u64,
    /// Number of catalogs that were repaired.
    pub repaired: u64,
    /// Number of stores that were reported as sound after the damage.
    pub sound: u64,
}

/// The damage that a seed applies to a base.
struct Damage {
    what: String,
    objects: Objects,
    damaged: BTreeSet<String>,
}

/// Runs `count` seeds from `first` on. An error is a violated invariant and names its seed.
pub fn run_damage(first: u64, count: u64) -> Result<Tally> {
    let bases = Base::all()?;
    let mut tally = Tally::default();
    for seed in first..first + count {
        let base = &bases[(seed % bases.len() as u64) as usize];
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let outcome = runtime.block_on(run_seed(seed, base, &mut tally));
        outcome.with_context(|| {
            format!(
                "damage seed {seed} (repeat it with `cargo run -p sandur-sim -- --damage 1 --first {seed}`)"
            )
        })?;
    }
    Ok(tally)
}

async fn run_seed(seed: u64, base: &Base, tally: &mut Tally) -> Result<()> {
    let env = Env::simulated(seed, base.ended_ns);
    let damage = choose(&env, base);
    let world = FaultStore::new(env.clone(), seed, FaultPlan::none());
    let run = Run { env, world, base, damage: &damage };
    let store = run.store("copy");
    for (path, bytes) in &damage.objects {
        store.put(path, bytes.clone(), Intent::gc()).await?;
    }
    let what = format!("{}: {}", base.name, damage.what);
    run.play(tally).await.with_context(|| what)
}

/// A run on one damaged copy.
struct Run<'a> {
    env: Env,
    world: FaultStore,
    base: &'a Base,
    damage: &'a Damage,
}

impl Run<'_> {
    async fn play(&self, tally: &mut Tally) -> Result<()> {
        tally.runs += 1;
        let is_sound = self.is_sound().await?;
        tally.sound += u64::from(is_sound);
        let first = self.live("first", is_sound).await;
        match first {
            Ok(true) => {}
            Ok(false) => {
                ensure!(!is_sound, "the store was reported as sound, but its start is refused");
                tally.refused += 1;
            }
            Err(error) => return Err(error.context("before a repair")),
        }
        let store = self.store("repair");
        let repair = Repair::plan(&store, &self.env).await?;
        if repair.is_needed() {
            tally.repaired += 1;
            repair.execute(&store, &self.env).await?;
            let report = check(&store, &self.env).await?;
            ensure!(!report.catalog_is_damaged, "after the repair: {:?}", report.findings);
        }
        let lives = self.live("second", is_sound).await.context("after a repair")?;
        ensure!(lives, "the start is refused after a repair: {:?}", repair.findings);
        Ok(())
    }

    fn store(&self, name: &str) -> Store {
        Store::from_object_store(Arc::new(self.world.client(name)), self.env.clone(), StoreOptions::default())
    }

    /// Returns whether `sandur check` reports the store as sound.
    async fn is_sound(&self) -> Result<bool> {
        let store = self.store("check");
        let report = check(&store, &self.env).await?;
        let mut is_sound = report.is_sound();
        for block in report.snapshot.all_blocks() {
            is_sound &= check_block(&store, block).await.is_ok();
        }
        Ok(is_sound)
    }

    /// Starts nodes, queries them, waits for garbage collection, and queries them again. Returns false
    /// when a start is refused.
    async fn live(&self, name: &str, is_sound: bool) -> Result<bool> {
        let mut nodes = Vec::new();
        for number in 0..self.base.nodes {
            match Node::start_slow(format!("{name}-{number}"), &self.env, &self.world).await {
                Ok(node) => nodes.push(node),
                Err(error) => {
                    let text = format!("{error:#}");
                    ensure!(text.contains("sandur repair"), "a refusal without a remedy: {text}");
                    return Ok(false);
                }
            }
        }
        for (moment, pause) in [("after the start", SETTLE), ("after garbage collection", COLLECT)] {
            self.env.sleep(pause).await;
            for node in &nodes {
                let asked = self.expect_rows(node, is_sound).await;
                asked.with_context(|| format!("{moment}, asking {}", node.name))?;
            }
        }
        Ok(true)
    }

    async fn expect_rows(&self, node: &Node, is_sound: bool) -> Result<()> {
        let mut found = Vec::new();
        for signal in Signal::ALL {
            found.append(&mut match is_sound {
                true => node.rows(signal).await?,
                false => node.rows_with_warnings(signal).await?,
            });
        }
        let mut counts: BTreeMap<&Found, usize> = BTreeMap::new();
        for row in &found {
            *counts.entry(row).or_default() += 1;
        }
        for (row, count) in &counts {
            ensure!(self.base.rows.contains_key(*row), "a row that was never written: {row:?}");
            ensure!(*count == 1, "{row:?} is found {count} times");
        }
        for (row, objects) in &self.base.rows {
            let is_undamaged = objects.iter().any(|object| !self.damage.damaged.contains(object));
            if (is_sound || is_undamaged) && !counts.contains_key(row) {
                let damaged = &self.damage.damaged;
                bail!("{row:?} of {objects:?} is lost; the damaged objects are {damaged:?}");
            }
        }
        Ok(())
    }
}

/// Returns the class of an object, by which damage is chosen.
fn class_of(path: &str) -> &'static str {
    let is_entry = |name: &str| name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit());
    match path.split_once('/') {
        Some(("blocks", _)) => "block",
        Some(("wal", _)) => "WAL object",
        Some(("members", _)) => "member",
        Some(("catalog", "boundary")) => "boundary",
        Some(("catalog", name)) if is_entry(name) => "entry",
        Some(("catalog", name)) if name.ends_with(".root") => "root",
        Some(("catalog", name)) if name.ends_with(".part") => "part",
        None if path == "witness" => "witness",
        _ => "other",
    }
}

fn choose(env: &Env, base: &Base) -> Damage {
    let mut classes: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for path in base.objects.keys() {
        classes.entry(class_of(path)).or_default().push(path);
    }
    let below = |n: usize| env.random_below(n.max(1) as u64) as usize;
    let names: Vec<&str> = classes.keys().copied().collect();
    let class = names[below(names.len())];
    let of_class = &classes[class];
    let kind = KINDS[below(KINDS.len())];
    let mut objects = base.objects.clone();
    // Sometimes all objects of a class, or the complete catalog.
    let targets: Vec<&String> = match below(12) {
        0 => of_class.clone(),
        1 => base.objects.keys().filter(|path| path.starts_with("catalog/")).collect(),
        n => {
            let count = if n < 9 { 1 } else { 1 + below(3) };
            let mut chosen: Vec<&String> = (0..count).map(|_| of_class[below(of_class.len())]).collect();
            chosen.sort();
            chosen.dedup();
            chosen
        }
    };
    let plan = Plan { env, base, kind, of_class };
    for path in &targets {
        plan.apply(path, &mut objects);
    }
    let is_damaged = |path: &&String| objects.get(*path) != base.objects.get(*path);
    let damaged: BTreeSet<String> = base.objects.keys().filter(is_damaged).cloned().collect();
    let what = format!("{kind:?} of {} objects of class {class}, such as {}", targets.len(), targets[0]);
    Damage { what, objects, damaged }
}

/// The damage to each of the chosen objects.
struct Plan<'a> {
    env: &'a Env,
    base: &'a Base,
    kind: Kind,
    of_class: &'a [&'a String],
}

impl Plan<'_> {
    fn below(&self, n: usize) -> usize {
        self.env.random_below(n.max(1) as u64) as usize
    }

    fn apply(&self, path: &String, objects: &mut Objects) {
        let Some(bytes) = objects.get(path).cloned() else { return };
        match self.kind {
            Kind::Delete => drop(objects.remove(path)),
            Kind::Truncate => {
                let length = self.below(bytes.len());
                objects.insert(path.clone(), bytes.slice(..length));
            }
            Kind::Flip => {
                let mut flipped = bytes.to_vec();
                if let Some(byte) = flipped.get_mut(self.below(bytes.len())) {
                    *byte ^= 1 << self.below(8);
                }
                objects.insert(path.clone(), Bytes::from(flipped));
            }
            Kind::Swap => {
                let other = self.of_class[self.below(self.of_class.len())];
                if let Some(others) = objects.get(other).cloned() {
                    objects.insert(path.clone(), others);
                    objects.insert(other.clone(), bytes);
                }
            }
            Kind::Older => {
                match self.base.yesterday.get(path) {
                    Some(older) => objects.insert(path.clone(), older.clone()),
                    None => objects.remove(path),
                };
            }
        }
    }
}

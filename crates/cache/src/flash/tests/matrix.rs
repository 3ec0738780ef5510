//! The fault matrix: random calls under every kind of fault, alone and combined, chosen by seed.
//!
//! Goal: whatever the device does, no value is wrong or old, no call waits for the device, and nothing
//! hangs. When the device works again, the tier recovers without help.
//!
//! Method: the seed chooses a kind of fault, its rate, and whether others are added. Random calls begin on a
//! healthy device and continue under the faults. Then four steps follow: the process is killed and a new one
//! recovers from the device; the device heals and a minute later nothing is missing; another kill; a clean
//! stop. Each answer is compared with a model. Only a device that reports a write that it did not make, or
//! made elsewhere, may bring an old value back after a kill; a wrong value is never allowed.

use std::task::Poll;
use std::time::Duration;

use super::faults::recovers;
use super::seeds;
use super::world::{Model, World, is_possible, version_of, warm_options};
use crate::device::{Fault, Faults, FaultyDevice};
use crate::flash::{Class, Health};

const TENTH: Duration = Duration::from_millis(100);

/// Kinds that report a write that was not made as requested.
const LIES: [Fault; 3] = [Fault::TornWrite, Fault::LostWrite, Fault::Misdirected];

/// Kinds that report a read that was not made as requested.
const MISREADS: [Fault; 2] = [Fault::BitFlip, Fault::ShortRead];

/// Kinds after which nothing can be read.
const UNREADABLE: [Fault; 3] = [Fault::ReadError, Fault::Stall, Fault::Vanish];

/// Kinds after which nothing can be written.
const UNWRITABLE: [Fault; 5] =
    [Fault::WriteError, Fault::SyncError, Fault::NoSpace, Fault::Vanish, Fault::ReadOnly];

/// The faults of a seed.
struct Course {
    /// The kind that certainly occurs.
    first: Fault,
    faults: Vec<(Fault, u32)>,
    /// Whether the first kind is the only one and occurs at every operation.
    is_total: bool,
}

impl Course {
    /// Each kind is the first for one seed in fourteen. In half of these cases it is alone, and in a
    /// quarter of those it occurs at every operation.
    fn of(world: &mut World) -> Self {
        let (seed, kinds) = (world.seed, Fault::ALL.len() as u64);
        let first = Fault::ALL[(seed % kinds) as usize];
        let is_alone = (seed / kinds).is_multiple_of(2);
        let is_total = is_alone && (seed / kinds / 2).is_multiple_of(4);
        let mut faults = Vec::new();
        for fault in Fault::ALL {
            if fault == first {
                let often = 20_000 + world.below(500_000) as u32;
                faults.push((fault, if is_total { 1_000_000 } else { often }));
            } else if !is_alone && world.below(3) == 0 {
                faults.push((fault, world.below(30_000) as u32));
            }
        }
        Self { first, faults, is_total }
    }

    fn lies(&self) -> bool {
        self.faults.iter().any(|(fault, _)| LIES.contains(fault))
    }

    fn inject(&self, device: &FaultyDevice) {
        let add = |faults: Faults, &(fault, rate): &(Fault, u32)| faults.with(fault, rate);
        device.inject(self.faults.iter().fold(Faults::none(), add));
    }
}

/// Makes random calls. Every value read must be correct and current, or a miss. Returns the model as of
/// the last durable commit.
fn live(world: &mut World, calls: u64) -> Model {
    let mut durable = Model::default();
    for _ in 0..calls {
        let key = world.below(150) as u32;
        match world.below(10) {
            0..=4 => {
                let magnitude = world.below(16);
                let bytes = 8 + world.below(1 + (1 << magnitude)) as usize;
                let _ = world.put_as(key, bytes, Class::OF_RECORDS[key as usize % 4], 0);
            }
            5 => {
                world.forget(key);
            }
            6..=8 => {
                world.check(key);
            }
            _ => {
                world.step(TENTH);
                if world.is_committed() {
                    durable = world.model.clone();
                }
            }
        }
    }
    durable
}

/// Checks that a device which always fails is not used any more after a second.
fn is_unused_within_a_second(world: &mut World, course: &Course) {
    const KEYS: std::ops::Range<u32> = 2000..2020;
    let (seed, first) = (world.seed, course.first);
    for key in KEYS {
        world.put(key, 500).unwrap();
    }
    world.step(Duration::from_secs(1));
    course.inject(&world.device);
    let began = world.elapsed();
    let reads: Vec<_> = KEYS.filter_map(|key| world.start_get(key, None)).collect();
    assert_eq!(reads.len(), KEYS.len(), "seed {seed}");
    let mut key = 0;
    while world.elapsed() < began + Duration::from_secs(1) {
        for class in Class::OF_RECORDS {
            key = (key + 1) % 20;
            let _ = world.put_as(2100 + key, 3000, class, 0);
        }
        world.step(TENTH);
    }
    for mut read in reads {
        let answer = world.poll(&mut read);
        assert!(answer.is_ready(), "seed {seed}: a read hangs for more than a second");
        let is_unreadable = UNREADABLE.contains(&first);
        assert!(
            !is_unreadable || answer == Poll::Ready(None),
            "seed {seed}: a value from an unreadable device"
        );
    }
    let health = world.flash.health();
    if UNREADABLE.contains(&first) {
        assert_eq!(health, Health::Failed, "seed {seed}: {first:?}");
    } else if UNWRITABLE.contains(&first) {
        assert_eq!(health, Health::Degraded, "seed {seed}: {first:?}");
    }
    let before = world.elapsed();
    if UNREADABLE.contains(&first) {
        assert_eq!(world.check_all(), 0, "seed {seed}: a failed device is read");
        assert_eq!(world.elapsed(), before, "seed {seed}: callers wait for a failed device");
    }
}

/// Checks that all values in `next` may be there after a kill of the earlier run.
fn is_possible_in(next: &World, before: &Model, durable: &Model, lies: bool, when: &str) {
    let seed = next.seed;
    for key in before.known.keys() {
        let Some(item) = next.get(*key) else { continue };
        let version = version_of(*key, &item.value);
        let version = version.unwrap_or_else(|| panic!("seed {seed}, {when}: wrong bytes of {key}"));
        let (durable, tried) = (durable.known.get(key), before.tried.get(key));
        let is_possible = lies || is_possible(version, durable, tried);
        assert!(is_possible, "seed {seed}, {when}: key {key} has version {version}, durable {durable:?}");
    }
}

/// Checks the values that a new process recovers after a kill.
fn is_sound_after_a_kill(world: &World, course: &Course, durable: &Model, when: &str) {
    let seed = world.seed;
    let next = World::over(seed, world.device.after_kill(seed), warm_options(), Model::default());
    next.step(Duration::ZERO);
    is_possible_in(&next, &world.model, durable, course.lies(), when);
}

/// Checks the values that a new process recovers after a kill, if the faults continue during its start.
fn is_sound_after_a_start_under_faults(world: &World, course: &Course) {
    let (seed, before) = (world.seed, &world.model);
    let device = world.device.after_kill(seed);
    course.inject(&device);
    let Ok(mut next) = World::try_over(seed, device, warm_options(), Model::default()) else { return };
    let lies = course.lies() || course.faults.iter().any(|(fault, _)| MISREADS.contains(fault));
    for _ in 0..5 {
        next.step(TENTH);
        is_possible_in(&next, before, before, lies, "started under faults");
    }
    recovers(&mut next);
    is_possible_in(&next, before, before, lies, "started under faults and healed");
    // Keys that were not recovered and are changed now must not come back later.
    for key in before.known.keys().filter(|key| *key % 2 == 0) {
        next.forget(*key);
    }
    next.step(TENTH);
    assert!(next.is_committed(), "seed {seed}: removals are not durable");
    let last = World::over(seed, next.device.after_kill(seed), warm_options(), Model::default());
    last.step(Duration::ZERO);
    is_possible_in(&last, before, before, lies, "after another kill");
    for key in before.known.keys().filter(|key| *key % 2 == 0) {
        assert!(lies || last.get(*key).is_none(), "seed {seed}: {key} was removed and has come back");
    }
}

/// Runs all steps for a seed. Returns the number of injected faults.
fn run(seed: u64) -> u64 {
    let mut world = World::new(seed, 4 << 20, warm_options());
    let course = Course::of(&mut world);
    live(&mut world, 50);
    if course.is_total {
        is_unused_within_a_second(&mut world, &course);
    }
    course.inject(&world.device);
    let durable = live(&mut world, 300);
    let injected = world.device.injected();
    is_sound_after_a_kill(&world, &course, &durable, "under faults");
    recovers(&mut world);
    world.step(Duration::from_secs(1));
    assert!(world.is_committed(), "seed {seed}: queued changes are not durable");
    world.check_all();
    is_sound_after_a_kill(&world, &course, &world.model, "healed");
    is_sound_after_a_start_under_faults(&world, &course);
    let (device, model) = world.close();
    let next = World::over(seed, device.after_kill(seed), warm_options(), model);
    next.step(Duration::ZERO);
    next.check_all();
    injected
}

#[test]
fn under_any_faults_no_byte_is_wrong_nothing_hangs_and_the_device_recovers() {
    let (seeds, mut injected) = (seeds(), 0);
    for seed in seeds.clone() {
        injected += run(seed);
    }
    assert!(injected >= (seeds.end - seeds.start) * 10, "{injected} faults are too few to show anything");
    println!("{injected} faults in seeds {seeds:?}");
}

/// Seeds that found faults beyond those of the first two hundred seeds.
#[test]
fn seeds_that_failed_once() {
    // An unreadable journal was treated as an empty one, so that removed keys came back.
    for seed in [1246, 1372, 1932] {
        run(seed);
    }
    // A misdirected write put an older value of the key in place of the newer one.
    run(1351);
}

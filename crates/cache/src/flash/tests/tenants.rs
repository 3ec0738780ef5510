//! Bytes of tenants: those reported when records are written, recovered and freed are consistent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::{World, name_of, warm_options};
use crate::device::{Fault, Faults};
use crate::flash::{Class, DropEvent, Flash, FlashOptions, NewRecord, Observer};

/// Bytes by tenant.
#[derive(Default)]
struct Holdings {
    occupied: Mutex<BTreeMap<u32, u64>>,
    vacated: Mutex<BTreeMap<u32, u64>>,
}

impl Holdings {
    /// All bytes ever reported as occupied.
    fn ever(&self) -> BTreeMap<u32, u64> {
        self.occupied.lock().unwrap().clone()
    }

    /// Bytes that are still occupied, of tenants that have any.
    fn now(&self) -> BTreeMap<u32, u64> {
        let mut held = self.ever();
        for (tenant, bytes) in self.vacated.lock().unwrap().iter() {
            let of = held.get_mut(tenant).unwrap_or_else(|| panic!("{tenant} had nothing"));
            *of = of.checked_sub(*bytes).unwrap_or_else(|| panic!("{tenant} had no {bytes} bytes"));
        }
        held.retain(|_, bytes| *bytes > 0);
        held
    }
}

impl Observer for Holdings {
    fn dropped(&self, _drop: DropEvent) {}

    fn occupied(&self, tenant: u32, bytes: u64) {
        *self.occupied.lock().unwrap().entry(tenant).or_default() += bytes;
    }

    fn vacated(&self, tenant: u32, bytes: u64) {
        *self.vacated.lock().unwrap().entry(tenant).or_default() += bytes;
    }
}

fn open(world: &World) -> (Flash, Arc<Holdings>) {
    let holdings = Arc::new(Holdings::default());
    let observer = Arc::clone(&holdings) as Arc<dyn Observer>;
    let device = Arc::clone(&world.device) as _;
    let flash = world.in_its_time(|| {
        let flash = Flash::open_on(&world.env, device, options(), observer).unwrap();
        flash.step();
        flash
    });
    (flash, holdings)
}

fn options() -> FlashOptions {
    FlashOptions { write_delay: Duration::ZERO, ..warm_options() }
}

/// Writes `keys` repeatedly, for tenants that follow from them, in every class.
fn write(flash: &Flash, keys: std::ops::Range<u32>, tenants: u32) {
    for key in keys {
        let name = name_of(key % 500);
        let value = vec![key as u8; (key % 61) as usize * 100];
        let class = Class::OF_RECORDS[key as usize % 4];
        let (tenant, hash) = (key % tenants, flash.hash(&name));
        let _ = flash.append(NewRecord { tenant, ..NewRecord::plain(&name, hash, &value, class) });
        if key % 16 == 0 {
            flash.step();
        }
    }
    flash.step();
}

#[test]
fn bytes_of_tenants_survive_stops_and_crashes_and_end_with_their_segments() {
    let world = World::new(17, 4 << 20, warm_options());
    let (flash, holdings) = open(&world);
    world.in_its_time(|| write(&flash, 0..4000, 300));
    let before = holdings.now();
    assert!(before.len() > 200, "{} tenants", before.len());
    drop(flash);
    let (flash, holdings) = open(&world);
    assert_eq!(holdings.ever(), before, "after a crash");
    world.in_its_time(|| {
        write(&flash, 0..4000, 5);
        flash.close();
    });
    let before = holdings.now();
    assert!(before.keys().all(|tenant| *tenant < 5), "the segments of other tenants are freed: {before:?}");
    drop(flash);
    let (flash, holdings) = open(&world);
    assert_eq!(holdings.ever(), before, "after a clean stop");
    // Failed writes and a flush free complete segments.
    world.device.inject(Faults::none().with(Fault::WriteError, 300_000));
    world.in_its_time(|| write(&flash, 0..2000, 5));
    world.device.heal();
    world.in_its_time(|| flash.flush_all());
    for _ in 0..100 {
        world.step(Duration::from_secs(1));
        world.in_its_time(|| flash.step());
    }
    world.in_its_time(|| write(&flash, 0..8000, 1));
    assert_eq!(holdings.now().into_keys().collect::<Vec<_>>(), [0]);
    let held: u64 = holdings.now().values().sum();
    assert!(held <= flash.capacity(), "{held} of {}", flash.capacity());
}

//! A device that was written in version 1 of the format. Every later version must read it.
//!
//! The fixture holds the non-zero units of 64 bytes of the device: number (u32) and bytes.

use std::time::Duration;

use super::world::{Known, Model, World, small_options, value_of};
use crate::device::{Device, FaultyDevice};
use crate::flash::{Class, FlashOptions, Warm};

const FIXTURE: &[u8] = include_bytes!("../../../fixtures/cache-device-v1.bin");
const DEVICE_BYTES: u64 = 1 << 20;
const UNIT: usize = 64;

fn options(warm: Warm) -> FlashOptions {
    FlashOptions { warm, segment_bytes: Some(64 << 10), ..small_options() }
}

fn device() -> FaultyDevice {
    let device = FaultyDevice::new(DEVICE_BYTES, 1);
    for unit in FIXTURE.chunks_exact(4 + UNIT) {
        let number = u32::from_le_bytes(unit[..4].try_into().unwrap());
        device.write_at(u64::from(number) * UNIT as u64, &unit[4..]).unwrap();
    }
    device
}

/// Writes the content of the fixture: a run with a clean stop, and a second run that ends in a crash.
fn write() -> World {
    let mut world = World::new(2026, DEVICE_BYTES, options(Warm::Crash));
    let soon = world.now() + 1_000_000_000;
    for (key, bytes) in [(1, 10), (2, 5000), (3, 40_000), (4, 300)] {
        world.put_as(key, bytes, Class::OF_RECORDS[key as usize % 4], soon).unwrap();
    }
    world.forget(4);
    let (device, model) = world.close();
    let mut world = World::over(2027, device.after_kill(1), options(Warm::Crash), model);
    world.step(Duration::ZERO);
    world.put(5, 700).unwrap();
    world.put(2, 800).unwrap();
    world.forget(1);
    let hash = world.flash.hash(&super::world::name_of(3));
    assert!(world.flash.touch(hash, soon + 9));
    world.step(Duration::from_secs(1));
    world
}

#[test]
fn a_device_of_version_1_is_read() {
    let mut model = Model::default();
    model.known.extend([(2, Known::Written(2)), (3, Known::Written(1)), (5, Known::Written(1))]);
    let world = World::over(1, device(), options(Warm::Crash), model);
    world.step(Duration::ZERO);
    assert_eq!(world.check_all(), 3);
    assert_eq!([1, 4].map(|key| world.get(key).is_some()), [false, false]);
    let large = world.get(3).unwrap();
    assert_eq!(large.value, value_of(3, 1, 40_000));
    assert_eq!(large.expires_at, 1_800_000_000 + 1_000_000_009);
}

/// Only for a new version of the format: writes its fixture next to the old one.
#[test]
#[ignore = "writes a file of the repository"]
fn write_the_fixture() {
    let world = write();
    let mut bytes = vec![0; DEVICE_BYTES as usize];
    world.device.read_at(0, &mut bytes).unwrap();
    let mut fixture = Vec::new();
    for (number, unit) in (0_u32..).zip(bytes.chunks_exact(UNIT)) {
        if unit.iter().any(|&byte| byte != 0) {
            fixture.extend_from_slice(&number.to_le_bytes());
            fixture.extend_from_slice(unit);
        }
    }
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/cache-device-v1.bin"), fixture).unwrap();
}

//! A device in memory that injects faults, by a seed.
//!
//! Every operation may meet a fault of [`Faults`]. A device may also vanish or become read-only until
//! [`FaultyDevice::heal`]. An operation that blocks its caller may hang; meanwhile the function of
//! [`FaultyDevice::while_it_hangs`] plays the other threads. [`FaultyDevice::after_power_loss`] returns
//! the device that a new process finds: synced writes are complete; of every other write all, a first
//! part or nothing is there.
//!
//! Invariant: the same seed and the same calls give the same faults.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::BLOCK;
use super::completion::{Patience, ReadError};
use super::interface::{Device, ReadRequest};
use crate::splitmix::SplitMix;

/// Size of a sector: a loss of power keeps or loses complete sectors of a write.
const SECTOR: usize = 512;

/// Longest delay of a read, in ticks.
const DELAY_MAX: u64 = 8;

/// Longest time for which a write, a sync or a blocking read hangs, in ticks.
const HANG_MAX: u64 = 80;

/// Called with the number of ticks for which an operation hangs.
type HangHook = Arc<dyn Fn(u32) + Send + Sync>;

/// One kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reads fail with EIO.
    ReadError,
    /// Writes fail with EIO.
    WriteError,
    /// Syncs fail with EIO.
    SyncError,
    /// Writes fail with ENOSPC.
    NoSpace,
    /// One bit of the bytes read is wrong.
    BitFlip,
    /// A write is acknowledged, but only its first part is stored.
    TornWrite,
    /// A write is acknowledged, but not stored.
    LostWrite,
    /// A write is acknowledged, but stored at another offset.
    Misdirected,
    /// A read fills only a part of its buffer and reports success.
    ShortRead,
    /// A read is answered only after some ticks of the watchdog, but before its deadline.
    Delay,
    /// A read is never answered; one that blocks its caller returns after up to 80 ticks.
    Stall,
    /// A write or a sync returns after up to 80 ticks.
    StallWrite,
    /// Everything fails until the device is healed.
    Vanish,
    /// Writes fail with EROFS until the device is healed.
    ReadOnly,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 14] = [
        Fault::ReadError,
        Fault::WriteError,
        Fault::SyncError,
        Fault::NoSpace,
        Fault::BitFlip,
        Fault::TornWrite,
        Fault::LostWrite,
        Fault::Misdirected,
        Fault::ShortRead,
        Fault::Delay,
        Fault::Stall,
        Fault::StallWrite,
        Fault::Vanish,
        Fault::ReadOnly,
    ];
}

/// The rate of each fault: faults per million operations of the kinds that it applies to.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<(Fault, u32)>);

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds `fault` at a rate of `per_million`.
    #[must_use]
    pub fn with(mut self, fault: Fault, per_million: u32) -> Self {
        self.0.push((fault, per_million));
        self
    }
}

/// A device in memory that injects faults.
pub struct FaultyDevice {
    size: u64,
    state: Mutex<State>,
    meanwhile: Mutex<Option<HangHook>>,
}

struct State {
    /// The contents that reads see.
    bytes: Vec<u8>,
    /// The contents that survive a loss of power.
    durable: Vec<u8>,
    unsynced: Vec<(usize, usize)>,
    stalled: Vec<(u32, ReadRequest, Patience)>,
    /// Delayed reads and the ticks at which they are answered.
    delayed: Vec<(u32, ReadRequest)>,
    tick: u32,
    faults: Faults,
    vanished: bool,
    read_only: bool,
    injected: u64,
    written: u64,
    /// Number of operations that blocked their caller.
    blocking: u64,
    random: SplitMix,
}

impl FaultyDevice {
    /// An empty device of `size` bytes without faults.
    pub fn new(size: u64, seed: u64) -> Self {
        let bytes = usize::try_from(size).map(|size| vec![0; size]).unwrap_or_default();
        Self::holding(bytes, seed)
    }

    fn holding(bytes: Vec<u8>, seed: u64) -> Self {
        let state = State {
            durable: bytes.clone(),
            bytes,
            unsynced: Vec::new(),
            stalled: Vec::new(),
            delayed: Vec::new(),
            tick: 0,
            faults: Faults::none(),
            vanished: false,
            read_only: false,
            injected: 0,
            written: 0,
            blocking: 0,
            random: SplitMix::new(seed),
        };
        let size = state.bytes.len() as u64;
        Self { size, state: Mutex::new(state), meanwhile: Mutex::default() }
    }

    /// Sets the function that plays the other threads while an operation hangs for the given number of ticks.
    pub fn while_it_hangs(&self, meanwhile: impl Fn(u32) + Send + Sync + 'static) {
        *self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(meanwhile));
    }

    /// Replaces the injected faults by `faults`.
    pub fn inject(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Ends all faults, also vanishing, read-only and stalls.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.faults = Faults::none();
        (state.vanished, state.read_only) = (false, false);
        let stalled = std::mem::take(&mut state.stalled).into_iter().map(|(_, read, _)| read);
        let delayed = std::mem::take(&mut state.delayed).into_iter().map(|(_, read)| read);
        drop(state);
        self.submit(stalled.chain(delayed).collect());
    }

    /// Number of faults injected so far.
    pub fn injected(&self) -> u64 {
        self.lock().injected
    }

    /// Bytes of all writes so far.
    pub fn written(&self) -> u64 {
        self.lock().written
    }

    /// The device that a new process finds after this one was killed: every write is stored.
    pub fn after_kill(&self, seed: u64) -> Self {
        Self::holding(self.lock().bytes.clone(), seed)
    }

    /// The device that a new process finds after a loss of power: synced writes are stored; of every
    /// later write all, the first part or nothing.
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let mut state = self.lock();
        let mut survived = state.durable.clone();
        for (start, length) in state.unsynced.clone() {
            let kept = match state.below(4) {
                0 => 0,
                1 => state.below(length as u64 / SECTOR as u64 + 1) as usize * SECTOR,
                _ => length,
            };
            survived[start..start + kept].copy_from_slice(&state.bytes[start..start + kept]);
        }
        Self::holding(survived, seed)
    }

    /// Number of operations that have blocked their callers so far: writes, syncs, discards and reads by
    /// [`Device::read_at`].
    pub fn blocking_operations(&self) -> u64 {
        self.lock().blocking
    }

    /// Counts an operation that blocks its caller, and lets it hang if `fault` occurs.
    fn block(&self, fault: Fault) {
        let mut state = self.lock();
        state.blocking += 1;
        if state.roll(&[fault]).is_none() {
            return;
        }
        let ticks = 1 + state.below(HANG_MAX) as u32;
        drop(state);
        let meanwhile = self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(meanwhile) = meanwhile {
            meanwhile(ticks);
        }
    }

    fn answer(&self, mut read: ReadRequest) {
        let start = self.span(read.offset, read.buffer.len());
        let result = start.and_then(|start| self.lock().read(start, read.buffer.bytes_mut()));
        read.completer.complete(result.map(|()| read.buffer).map_err(ReadError::Device));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn span(&self, offset: u64, length: usize) -> io::Result<usize> {
        let outside = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let end = offset.checked_add(length as u64).filter(|&end| end <= self.size);
        end.ok_or_else(outside)?;
        usize::try_from(offset).map_err(|_| outside())
    }
}

impl State {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.draw() % bound.max(1)
    }

    /// The fault of `candidates` that occurs now, if any.
    fn roll(&mut self, candidates: &[Fault]) -> Option<Fault> {
        for (fault, per_million) in self.faults.0.clone() {
            if candidates.contains(&fault) && self.below(1_000_000) < u64::from(per_million) {
                self.injected += 1;
                return Some(fault);
            }
        }
        None
    }

    fn read(&mut self, start: usize, into: &mut [u8]) -> io::Result<()> {
        let fault = self.roll(&[Fault::ReadError, Fault::BitFlip, Fault::ShortRead, Fault::Vanish]);
        self.vanished |= fault == Some(Fault::Vanish);
        if self.vanished || fault == Some(Fault::ReadError) {
            return Err(rustix::io::Errno::IO.into());
        }
        let filled = match fault {
            Some(Fault::ShortRead) => self.below(into.len() as u64) as usize,
            _ => into.len(),
        };
        into[..filled].copy_from_slice(&self.bytes[start..start + filled]);
        if fault == Some(Fault::BitFlip) && !into.is_empty() {
            let place = self.below(into.len() as u64) as usize;
            into[place] ^= 1 << self.below(8);
        }
        Ok(())
    }

    fn write(&mut self, mut start: usize, mut data: &[u8]) -> io::Result<()> {
        let fault = self.roll(&[
            Fault::WriteError,
            Fault::NoSpace,
            Fault::TornWrite,
            Fault::LostWrite,
            Fault::Misdirected,
            Fault::Vanish,
            Fault::ReadOnly,
        ]);
        self.vanished |= fault == Some(Fault::Vanish);
        self.read_only |= fault == Some(Fault::ReadOnly);
        if self.vanished {
            return Err(rustix::io::Errno::IO.into());
        }
        if self.read_only {
            return Err(rustix::io::Errno::ROFS.into());
        }
        match fault {
            Some(Fault::WriteError) => return Err(rustix::io::Errno::IO.into()),
            Some(Fault::NoSpace) => return Err(rustix::io::Errno::NOSPC.into()),
            Some(Fault::LostWrite) => return Ok(()),
            Some(Fault::TornWrite) => {
                data = &data[..self.below(data.len() as u64) as usize / SECTOR * SECTOR];
            }
            Some(Fault::Misdirected) => {
                let room = (self.bytes.len() - data.len()) as u64 / BLOCK + 1;
                start = self.below(room) as usize * BLOCK as usize;
            }
            _ => {}
        }
        self.bytes[start..start + data.len()].copy_from_slice(data);
        self.unsynced.push((start, data.len()));
        self.written += data.len() as u64;
        Ok(())
    }
}

impl Device for FaultyDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_alignment(&self) -> u64 {
        SECTOR as u64
    }

    fn submit(&self, batch: Vec<ReadRequest>) {
        for read in batch {
            let mut state = self.lock();
            match state.roll(&[Fault::Stall, Fault::Delay]) {
                Some(Fault::Stall) => {
                    let since = state.tick;
                    if let Some(patience) = read.completer.patience() {
                        state.stalled.push((since, read, patience));
                    }
                }
                Some(_) => {
                    let due = state.tick.wrapping_add(1 + state.below(DELAY_MAX) as u32);
                    state.delayed.push((due, read));
                }
                None => {
                    drop(state);
                    self.answer(read);
                }
            }
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = self.span(offset, into.len())?;
        self.block(Fault::Stall);
        self.lock().read(start, into)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = self.span(offset, data.len())?;
        self.block(Fault::StallWrite);
        self.lock().write(start, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.block(Fault::StallWrite);
        let mut guard = self.lock();
        let state = &mut *guard;
        let failed = state.roll(&[Fault::SyncError]).is_some();
        if state.vanished || failed {
            return Err(rustix::io::Errno::IO.into());
        }
        for (start, length) in state.unsynced.drain(..) {
            state.durable[start..start + length].copy_from_slice(&state.bytes[start..start + length]);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let start = self.span(offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        let mut state = self.lock();
        state.blocking += 1;
        let length = usize::try_from(length).unwrap_or_default();
        if state.vanished || state.read_only {
            return Err(rustix::io::Errno::IO.into());
        }
        state.bytes[start..start + length].fill(0);
        state.unsynced.push((start, length));
        Ok(())
    }

    fn expire(&self, patience: u32) -> usize {
        let mut state = self.lock();
        state.tick = state.tick.wrapping_add(1);
        let tick = state.tick;
        let due = state.delayed.extract_if(.., |(due, _)| *due == tick).collect::<Vec<_>>();
        drop(state);
        due.into_iter().for_each(|(_, read)| self.answer(read));
        let state = self.lock();
        let late = state.stalled.iter().filter(|(since, ..)| tick.wrapping_sub(*since) >= patience);
        late.filter(|(.., waiting)| waiting.give_up()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_power_keeps_synced_writes_and_complete_sectors_of_others() {
        let (mut lost, mut torn, mut kept) = (0, 0, 0);
        for seed in 0..200 {
            let device = FaultyDevice::new(64 << 10, seed);
            device.write_at(0, &[1; 4096]).unwrap();
            device.sync().unwrap();
            device.write_at(8192, &[2; 8192]).unwrap();
            let after = device.after_power_loss(seed);
            let mut back = [0; 16384];
            after.read_at(0, &mut back).unwrap();
            assert!(back[..4096].iter().all(|&b| b == 1), "seed {seed}");
            let length = back[8192..].iter().take_while(|&&b| b == 2).count();
            assert!(back[8192 + length..].iter().all(|&b| b == 0) && length % 512 == 0, "seed {seed}");
            match length {
                0 => lost += 1,
                8192 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 10 && torn > 10 && kept > 10, "{lost} lost, {torn} torn, {kept} kept");
    }

    #[test]
    fn a_vanished_device_fails_until_it_is_healed() {
        let device = FaultyDevice::new(64 << 10, 1);
        device.inject(Faults::none().with(Fault::Vanish, 1_000_000));
        assert!(device.read_at(0, &mut [0; 512]).is_err());
        device.inject(Faults::none());
        assert!(device.write_at(0, &[0; 512]).is_err() && device.sync().is_err());
        device.heal();
        device.write_at(0, &[9; 512]).unwrap();
        let mut back = [0; 512];
        device.read_at(0, &mut back).unwrap();
        assert_eq!((back[0], device.injected()), (9, 1));
    }
}

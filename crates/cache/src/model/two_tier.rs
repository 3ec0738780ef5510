//! Our cache as a policy: RAM in front of flash, with the policy code of the engine.
//!
//! A value that is put goes to RAM. It is offered to flash then, or when it leaves RAM, as
//! [`Occasion::of_first_offer`] says. A value that leaves RAM and has a copy on flash costs no write. A
//! hit on flash copies the value into RAM if it is the second one in a short time.

use super::drops::Drops;
use super::flash_model::{FlashModel, FlashShape, NewRecord};
use super::policy::Policy;
use super::request::Request;
use crate::hint::Hint;
use crate::policy::{
    Admission, AdmissionOptions, Amount, Candidate, Churn, Class, Evicted, Eviction, NewEntry, Occasion,
    Rank, RecentReads, Reinsertion, S3Fifo, Source, TenantCaps, Verdict,
};

/// Sizes and options of both tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct TierOptions {
    /// Bytes of RAM.
    pub ram_bytes: u64,
    /// Bytes of flash; 0 for none.
    pub flash_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes that may be written to flash in 24 hours; 0 for no limit.
    pub write_bytes_per_day: u64,
    /// The choice of records that are written again.
    pub reinsertion: Reinsertion,
    /// Caps of tenants.
    pub tenants: TenantCaps,
    /// Seed of the random numbers for thinning.
    pub seed: u64,
}

impl TierOptions {
    fn admission(&self) -> AdmissionOptions {
        AdmissionOptions {
            capacity: self.flash_bytes,
            write_bytes_per_day: self.write_bytes_per_day,
            tenants: self.tenants.clone(),
            seed: self.seed,
        }
    }
}

/// A value in RAM.
#[derive(Clone, Copy, Debug)]
struct RamValue {
    written_s: u32,
    tenant: u32,
    source: Source,
    /// Size in MiB of the scan that brought it, for [`Source::Scan`].
    scan_mib: u32,
}

/// Where a read found its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In RAM.
    Ram,
    /// On flash.
    Flash,
    /// In neither.
    Nowhere,
}

/// RAM and flash.
#[derive(Debug)]
pub struct TwoTier {
    ram: S3Fifo<RamValue>,
    flash: Option<FlashModel>,
    admission: Admission,
    churn: Churn,
    admitted: u64,
    ram_hits: u64,
    recent_reads: RecentReads,
}

impl TwoTier {
    /// Empty tiers.
    pub fn new(options: &TierOptions) -> Self {
        Self::build(options, Admission::new(options.admission()), 0)
    }

    /// A model that sees the share `sample` of all keys, with `options` scaled down accordingly.
    pub(crate) fn of_sample(options: &TierOptions, sample: f64, keys: usize) -> Self {
        Self::build(options, Admission::of_sample(options.admission(), sample, keys), keys)
    }

    fn build(options: &TierOptions, admission: Admission, keys: usize) -> Self {
        let (in_ram, on_flash) = if options.flash_bytes > 0 { (0, keys) } else { (keys, 0) };
        let shape = FlashShape {
            capacity: options.flash_bytes,
            segment_bytes: options.segment_bytes,
            reinsertion: options.reinsertion,
        };
        Self {
            ram: S3Fifo::with_room(options.ram_bytes, in_ram),
            flash: (options.flash_bytes > 0).then(|| FlashModel::with_room(shape, on_flash)),
            admission,
            churn: Churn::new(),
            admitted: 0,
            ram_hits: 0,
            recent_reads: RecentReads::default(),
        }
    }

    /// Looks up a key.
    pub fn find(&mut self, request: &Request) -> Found {
        if self.ram.get(request.hash, |_| true).is_some() {
            self.ram_hits += 1;
            return Found::Ram;
        }
        let Some(flash) = &mut self.flash else { return Found::Nowhere };
        let Some(record) = flash.read(request.hash) else { return Found::Nowhere };
        let (written_s, tenant, source) = (record.written_s, record.tenant, record.source);
        let value = RamValue { written_s, tenant, source, scan_mib: 0 };
        if self.recent_reads.note(request.hash) {
            self.bring_to_ram(request, value);
        }
        Found::Flash
    }

    /// Number of hits in RAM.
    pub fn ram_hits(&self) -> u64 {
        self.ram_hits
    }

    /// Bytes admitted to flash, without rewritten ones.
    pub fn admitted_bytes(&self) -> u64 {
        self.admitted
    }

    /// Whether a key is there, without counting a use.
    pub(crate) fn contains(&self, hash: u64) -> bool {
        let in_ram = self.ram.peek(hash, |_| true).is_some();
        in_ram || self.flash.as_ref().is_some_and(|flash| flash.contains(hash))
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, hash: u64) {
        self.ram.remove(hash, |_| true);
        if let Some(flash) = &mut self.flash {
            flash.forget(hash);
        }
    }

    /// Number of entries in RAM and records on flash, including dead ones.
    pub(crate) fn entries(&self) -> usize {
        self.ram.len() + self.flash.as_ref().map_or(0, FlashModel::records)
    }

    /// Bytes of memory of the model itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        let flash = self.flash.as_ref().map_or(0, FlashModel::memory_bytes);
        self.ram.memory_bytes() + flash + self.admission.memory_bytes() + self.churn.memory_bytes()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let mut keys = Vec::with_capacity(self.entries());
        self.ram.visit(0, usize::MAX, |hash, _| keys.push(hash));
        keys.extend(self.flash.iter().flat_map(FlashModel::keys));
        keys
    }

    /// Halves RAM, flash and segments when the sample is halved.
    pub(crate) fn halve(&mut self) {
        self.ram.set_capacity(self.ram.capacity() / 2);
        if let Some(flash) = &mut self.flash {
            flash.halve();
        }
        self.admission.halve_sample();
    }

    fn bring_to_ram(&mut self, request: &Request, value: RamValue) {
        let weight = request.bytes;
        if u64::from(weight) > self.ram.capacity() {
            return;
        }
        while let Some(evicted) = self.ram.make_room(weight) {
            self.leave_ram(evicted, request.at_s);
        }
        let rank = if value.source == Source::Metadata { Rank::Pinned } else { Rank::Ordinary };
        self.ram.insert(NewEntry { hash: request.hash, weight, rank, value }, |_| true);
    }

    fn leave_ram(&mut self, evicted: Evicted<RamValue>, now_s: u32) {
        let value = evicted.value;
        let uses = evicted.uses.max(u8::from(evicted.fetched));
        if let Some(flash) = &mut self.flash {
            if flash.note_uses(evicted.hash, uses) {
                return;
            }
            let candidate = value.candidate(evicted.hash, evicted.weight, uses);
            if self.offer(&candidate, value, now_s) {
                return;
            }
        }
        let eviction = Eviction {
            class: Class::Ram,
            source: value.source,
            tenant: value.tenant,
            age_s: u64::from(now_s.saturating_sub(value.written_s)),
            bytes: u64::from(evicted.weight),
            fetched: evicted.fetched,
        };
        self.churn.count(&eviction, u64::from(now_s));
    }

    /// Offers a value to flash. Returns whether it was written.
    fn offer(&mut self, candidate: &Candidate, value: RamValue, now_s: u32) -> bool {
        let Some(flash) = &mut self.flash else { return false };
        self.admission.set_tail_age(flash.tail_age_at(self.admission.time()));
        let Verdict::Admit(class) = self.admission.decide(candidate, u64::from(now_s) * 1_000) else {
            return false;
        };
        let Candidate { hash, tenant, hits, .. } = *candidate;
        let bytes = candidate.bytes as u32;
        let (written_s, source, fetched) = (value.written_s, value.source, hits > 0);
        let record = NewRecord { hash, bytes, written_s, tenant, source, fetched, uses: 0 };
        let (churn, admission) = (&self.churn, &self.admission);
        flash.append(class, record, &mut |hash, eviction| {
            admission.made_room();
            admission.dropped(eviction.tenant, eviction.bytes);
            if eviction.class == Class::Probation {
                admission.left_probation(hash, eviction.bytes);
            }
            churn.count(&eviction, u64::from(now_s));
        });
        admission.spent(u64::from(bytes));
        admission.holds(tenant, u64::from(bytes));
        self.admitted += u64::from(bytes);
        true
    }
}

impl RamValue {
    fn new(request: &Request) -> Self {
        let scan_mib = match request.hint {
            Hint::Scan { bytes } => (bytes >> 20).min(u64::from(u32::MAX)) as u32,
            _ => 0,
        };
        let (written_s, tenant, source) = (request.at_s, request.tenant, Source::from(request.hint));
        Self { written_s, tenant, source, scan_mib }
    }

    /// The candidate for flash when the value leaves RAM.
    fn candidate(&self, hash: u64, bytes: u32, hits: u8) -> Candidate {
        let hint = match self.source {
            Source::Ingest => Hint::Ingest,
            Source::Metadata => Hint::Metadata,
            Source::Scan => Hint::Scan { bytes: u64::from(self.scan_mib) << 20 },
            Source::Fill => Hint::Point,
        };
        let (bytes, tenant, occasion) = (u64::from(bytes), self.tenant, Occasion::Leaving);
        Candidate { hash, bytes, tenant, hint, hits, occasion }
    }
}

impl Policy for TwoTier {
    fn name(&self) -> &'static str {
        "Sandur"
    }

    fn read(&mut self, request: &Request) -> bool {
        self.find(request) != Found::Nowhere
    }

    fn put(&mut self, request: &Request) {
        let Request { at_s, hash, bytes, tenant, hint, .. } = *request;
        let value = RamValue::new(request);
        let (bytes, occasion) = (u64::from(bytes), Occasion::of_first_offer(hint));
        if occasion == Occasion::Stored {
            let candidate = Candidate { hash, bytes, tenant, hint, hits: 0, occasion };
            self.offer(&candidate, value, at_s);
        }
        self.bring_to_ram(request, value);
    }

    fn drops(&self) -> Drops {
        let total = self.churn.total();
        let sum = |a: Amount, b: Amount| Amount { objects: a.objects + b.objects, bytes: a.bytes + b.bytes };
        let all = sum(total.fetched, total.unfetched);
        Drops {
            objects: all.objects,
            bytes: all.bytes,
            unfetched_objects: total.unfetched.objects,
            unfetched_bytes: total.unfetched.bytes,
        }
    }

    fn written_bytes(&self) -> u64 {
        match &self.flash {
            Some(flash) => flash.written_bytes(),
            None => self.admitted,
        }
    }

    fn rewritten_bytes(&self) -> u64 {
        self.written_bytes() - self.admitted
    }
}

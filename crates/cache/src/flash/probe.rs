//! The probe: whether a device that failed takes writes and gives them back.

use super::core::Core;
use super::layout::PROBE;
use crate::device::BLOCK;

impl Core {
    /// Probes a device that is out of use, when its pause is over.
    pub fn probe_if_due(&self) {
        if !self.watch.wants_probe(self.env.monotonic()) {
            return;
        }
        let succeeded = self.probe().is_ok_and(|same| same);
        if self.watch.probed(succeeded, self.env.monotonic()) {
            self.retired.hurry();
        }
    }

    fn probe(&self) -> std::io::Result<bool> {
        let Some(mut block) = self.write_pool.take(BLOCK as usize) else { return Ok(false) };
        let mark = self.env.random_u64().to_le_bytes();
        block.bytes_mut().chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&mark));
        self.device.write_at(PROBE, block.as_ref())?;
        self.device.sync()?;
        block.bytes_mut().fill(0);
        self.device.read_at(PROBE, block.bytes_mut())?;
        Ok(block.as_ref().chunks_exact(8).all(|word| word == mark))
    }
}

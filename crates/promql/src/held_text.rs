//! A string whose memory is reserved while it is written.

use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};

/// The text with its reservation.
#[derive(Default)]
pub struct HeldText {
    text: String,
    memory: JobMemory,
}

impl HeldText {
    /// Appends text; fails, and ends the job, if there is no memory or time for it.
    pub fn push(&mut self, text: &str) -> Result<(), Stopped> {
        spend(text.len())?;
        // Growth copies the text into a buffer of twice its length; both exist at once.
        self.memory.at_least((self.text.len() + text.len()) as u64 * 3)?;
        self.text.push_str(text);
        Ok(())
    }

    /// The text so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Turns it into a plain string, which the caller accounts for.
    pub fn into_text(self) -> String {
        self.text
    }
}

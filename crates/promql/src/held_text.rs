//! Text whose memory is reserved while it is written.

use sandur_base::Stopped;
use sandur_base::job::{Held, spend};

/// What was written, and its memory.
#[derive(Default)]
pub struct HeldText {
    text: String,
    memory: Held,
}

impl HeldText {
    /// Writes on; fails, and ends the job, when there is no memory or no time for it.
    pub fn push(&mut self, text: &str) -> Result<(), Stopped> {
        spend(text.len())?;
        // What grows is copied into twice the room.
        self.memory.at_least((self.text.len() + text.len()) as u64 * 3)?;
        self.text.push_str(text);
        Ok(())
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What was written, from now on the caller's.
    pub fn into_text(self) -> String {
        self.text
    }
}

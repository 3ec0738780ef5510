//! An attack: its name, its description, and the function that runs it.

use anyhow::Result;

use crate::ground::Ground;

/// One way to attack a server.
pub struct Attack {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Runs the attack; defects of the server are recorded in the ground's tally.
    pub run: fn(&Ground<'_>) -> Result<()>,
}

//! quit: ends the connection.

use crate::next::{Ending, Next};

use super::call::{Call, Command};

/// The command `quit`.
pub(crate) struct Quit;

impl Command for Quit {
    const NAME: &'static str = "quit";
    const ABOUT: &'static str = "ends the connection";

    fn run(_: &mut Call<'_>) -> Next {
        Next::End(Ending::Normal)
    }
}

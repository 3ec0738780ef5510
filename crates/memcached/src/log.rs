//! What the server tells the process that it runs in.
//!
//! What the layers below have to say, such as that a flash device is out of use, they say with `tracing`;
//! how much of that is heard is the process's business, and follows what operators ask for here.

/// A log with a level that is memcached's.
pub trait Log: Send + Sync {
    /// A line about the start, the stop or a signal.
    fn say(&self, line: &str);

    /// How much to log from now on: 0 without `-v`, one more for each, or as the command `verbosity` says.
    fn set_verbosity(&self, level: u32) {
        let _ = level;
    }
}

impl<F: Fn(&str) + Send + Sync> Log for F {
    fn say(&self, line: &str) {
        self(line);
    }
}

//! The log of the server, which the embedding process provides.
//!
//! Lower layers log with `tracing`, for example that a flash device failed. The process decides which of
//! those events are shown; it should follow the level that operators set here.

/// A log with memcached's levels.
pub trait Log: Send + Sync {
    /// Logs a line about the start, the stop or a signal.
    fn say(&self, line: &str);

    /// Sets the log level: the number of `-v` options, or the argument of the command `verbosity`.
    fn set_verbosity(&self, level: u32) {
        let _ = level;
    }
}

impl<F: Fn(&str) + Send + Sync> Log for F {
    fn say(&self, line: &str) {
        self(line);
    }
}

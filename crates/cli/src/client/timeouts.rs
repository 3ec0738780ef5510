//! How long a client waits for a server.

use std::time::Duration;

/// Timeout for connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for an answer: longer than a query may run.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

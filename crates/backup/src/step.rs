//! What a backup or a restore reports while it works.

/// A step of a backup or a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It copies blocks of this many bytes.
    Blocks {
        /// Blocks that have to be copied or verified.
        blocks: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// This many more bytes of them are done.
    Done(u64),
    /// Blocks were merged or removed meanwhile; it reads the catalog again.
    Again {
        /// Blocks that are gone.
        gone: usize,
    },
}

/// Receives the steps of a backup or a restore.
pub type Progress = std::sync::Arc<dyn Fn(Step) + Send + Sync>;

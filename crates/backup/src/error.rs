//! Why a backup, a restore or a removal failed, with the object and the remedy.

use sandur_base::Id;

/// A failure of a backup, a restore or a removal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A store failed.
    #[error("{0}")]
    Store(#[from] sandur_store::Error),
    /// The catalog of the source or of a backup cannot be used.
    #[error("{0}")]
    Catalog(#[from] sandur_catalog::Error),
    /// A value does not fit the format.
    #[error("{0}")]
    Format(#[from] sandur_format::Error),
    /// An object of the place cannot be decoded.
    #[error("'{path}' of the backups cannot be used: {reason}")]
    Unreadable {
        /// The object.
        path: String,
        /// Why.
        reason: sandur_format::Error,
    },
    /// The place has objects that are not of backups.
    #[error(
        "{url} is not a place of backups, but has '{object}': name an empty directory or prefix, or one \
         that has backups"
    )]
    NotAPlace {
        /// The place.
        url: String,
        /// An object in it.
        object: String,
    },
    /// The source is empty.
    #[error("{url} is not a store: it has no catalog. Name the store with --from as for `sandur serve`")]
    NoStore {
        /// The source.
        url: String,
    },
    /// There are no backups.
    #[error("{url} has no backups: name the directory or prefix that `sandur backup --to` wrote")]
    NoBackups {
        /// The place.
        url: String,
    },
    /// The place has backups of another store.
    #[error(
        "{url} has backups of another store, or the catalog of the source has lost entries: the newest \
         backup {backup} was made after entry {number}, and the source has another entry or none there. \
         Name another place for this store, or check the source with `sandur check`"
    )]
    OtherStore {
        /// The place.
        url: String,
        /// The newest backup.
        backup: Id,
        /// The entry after which it was made.
        number: u64,
    },
    /// Backups are being removed.
    #[error(
        "backups are being removed from {url}: try again when that has ended; if it was killed, run \
         `sandur backup remove` again"
    )]
    Removing {
        /// The place.
        url: String,
    },
    /// A backup is in progress.
    #[error("a backup is in progress at {url} ('{mark}' is renewed): remove backups when it has ended")]
    InProgress {
        /// The place.
        url: String,
        /// Its mark.
        mark: String,
    },
    /// New processes register all the time.
    #[error(
        "new processes registered in each of {rounds} attempts to copy the WAL: try again when the processes \
         of the store do not restart all the time"
    )]
    NewWriters {
        /// Number of attempts.
        rounds: u32,
    },
    /// The mark of this backup was removed while it worked.
    #[error(
        "backup {backup} was taken for dead and removed by `sandur backup remove`, because it did not renew \
         its mark: nothing is lost except this backup; start it again"
    )]
    TakenForDead {
        /// The backup.
        backup: Id,
    },
    /// A block of the catalog does not exist.
    #[error(
        "'{path}' is in the catalog, but does not exist in {url}: run `sandur check` on that store; there is \
         no backup of a damaged store until it is repaired"
    )]
    Missing {
        /// The store.
        url: String,
        /// The block.
        path: String,
    },
    /// An object has other contents than it must have.
    #[error("'{path}' in {url} is damaged: {problem}")]
    Damaged {
        /// The store.
        url: String,
        /// The object.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The store changed faster than it could be copied.
    #[error(
        "in each of {rounds} rounds blocks were merged and deleted before they were copied, at last \
         '{path}': use a higher --max-rate, or a longer retention.delete_delay of the server. What was \
         copied stays, and the next backup continues with it"
    )]
    Overtaken {
        /// Number of rounds.
        rounds: u32,
        /// A block that was gone in the last one.
        path: String,
    },
    /// There are too many objects.
    #[error("the WAL has {count} objects, a backup at most {limit}: flush the writers first")]
    TooManyWalObjects {
        /// Number of objects.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// There are too many objects of rules.
    #[error("the store has {count} objects below 'rules/', a backup at most {limit}")]
    TooManyRules {
        /// Number of objects.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// Rules are changed all the time.
    #[error("stored rules were changed in each of {attempts} attempts to copy them: try again later")]
    RulesChange {
        /// Number of attempts.
        attempts: u32,
    },
    /// A restore needs an empty store.
    #[error(
        "{url} is not empty: it has '{object}'. A restore needs an empty directory or prefix, so that no \
         data are overwritten"
    )]
    NotEmpty {
        /// The store.
        url: String,
        /// An object in it.
        object: String,
    },
    /// An interrupted restore of another backup is there.
    #[error(
        "{url} has an interrupted restore of backup {backup}: continue it with `--backup {backup}`, or empty \
         the directory or prefix first"
    )]
    OtherRestore {
        /// The store.
        url: String,
        /// The backup that was being restored.
        backup: Id,
    },
    /// The manifest of a backup cannot be decoded, so nobody knows what it has.
    #[error(
        "the contents of backup {backup} in {url} are unknown: {problem}. Name another one with `sandur \
         restore --backup`, or remove it with `sandur backup remove --to {url} {backup}`"
    )]
    Unknown {
        /// The place.
        url: String,
        /// The backup.
        backup: Id,
        /// Why.
        problem: String,
    },
    /// The named backup does not exist.
    #[error("{url} has no backup {backup}; `sandur backup list --to {url}` lists them")]
    NoSuchBackup {
        /// The place.
        url: String,
        /// The backup.
        backup: Id,
    },
    /// No backup is as old as requested.
    #[error("{url} has no backup from before that time; `sandur backup list --to {url}` lists them")]
    NoneBefore {
        /// The place.
        url: String,
    },
}

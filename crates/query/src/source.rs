//! The sources of log queries: log rows, and the versions of stored data.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{
    Labels, Level, LineAutomaton, LineColumn, LineReducer, LogPage, Matcher, TenantId, TimeRange,
};

use crate::context::QueryContext;
use crate::error::Error;
use crate::holdings::Holding;
use crate::series_index::SeriesIndex;

/// The order in which a scan delivers its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By falling last timestamp; of equal ones, the item that was stored later comes first.
    NewestFirst,
    /// By rising first timestamp; of equal ones, the item that was stored earlier comes first.
    OldestFirst,
    /// Any order; the source chooses the cheapest.
    Any,
}

/// A byte string that a line must contain to be relevant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// The bytes; lower case when `ignore_ascii_case` is set.
    pub literal: Vec<u8>,
    /// Whether ASCII letters match in either case.
    pub ignore_ascii_case: bool,
}

/// A conjunction of alternatives: a relevant line contains at least one needle of each element. A source
/// may use it to skip pages; it may still deliver rows that do not contain the needles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needles(pub Vec<Vec<Needle>>);

/// The columns that a scan needs. A page with a [`sandur_model::Suspect`] run has its lines and metadata
/// in any case, because the reader needs them to detect duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Lines, for at least some rows of most pages.
    pub lines: bool,
    /// Structured metadata and detected level.
    pub metadata: bool,
}

/// What a query reads from a source of logs.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Conditions on stream labels, all of which must match.
    pub matchers: Vec<Matcher>,
    /// Selects rows with a timestamp inside.
    pub range: TimeRange,
    /// Order of the items.
    pub order: Order,
    /// Texts that relevant lines contain; lets the source skip pages.
    pub needles: Needles,
    /// The needed columns; lets the source fetch less.
    pub columns: Columns,
    /// Whether the query can use [`StreamCounts`] instead of the rows of complete minutes. Only if every
    /// matching row counts the same: no filter, and no stage that reads the row.
    pub counts: bool,
    /// With `counts`: the labels that the query groups by. Counts contain only the stream and the level
    /// of rows. So for a stream without one of these labels a source delivers pages if its rows may have
    /// the label as structured metadata (except `detected_level`, which counts contain unless clients
    /// sent their own).
    pub counts_by: Vec<String>,
}

/// Lines and bytes of one stream and level in one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinuteCount {
    /// The minute's end in minutes since the epoch: rows with
    /// `(minute - 1) * 60 s < timestamp <= minute * 60 s`, the windows of LogQL.
    pub minute: i32,
    /// Number of rows.
    pub lines: u32,
    /// Bytes of their lines.
    pub bytes: u64,
}

/// Counts of one stream and level; the minutes rise and are completely inside the selected range.
#[derive(Clone, Debug)]
pub struct StreamCounts {
    /// The stream.
    pub labels: Arc<Labels>,
    /// The level of the counted rows.
    pub level: Level,
    /// Counts of the stream; other items share them.
    pub minutes: Arc<Vec<MinuteCount>>,
    /// Start of the range of `minutes` that belongs to this item, inclusive.
    pub from: usize,
    /// End of that range, exclusive.
    pub to: usize,
}

impl StreamCounts {
    /// The counts of this item.
    pub fn minutes(&self) -> &[MinuteCount] {
        &self.minutes[self.from..self.to]
    }
}

/// One item of a scan, fetched but not decoded. Decoding is a computation for the CPU pool.
pub enum ScanItem {
    /// Pre-aggregated rows.
    Counts(Box<dyn CountsTask>),
    /// A page of rows.
    Page(Box<dyn PageTask>),
}

impl ScanItem {
    /// The most bytes that decoding uses, for the reservation.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Counts(task) => task.memory_bytes(),
            Self::Page(task) => task.memory_bytes(),
        }
    }
}

/// Counts that are not decoded yet.
pub trait CountsTask: Send {
    /// Bytes that decoding uses, for the reservation.
    fn memory_bytes(&self) -> u64;
    /// The counts of the selected streams.
    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error>;
}

/// A page that is not decoded yet.
pub trait PageTask: Send {
    /// Bounds of the timestamps of the page, both inclusive.
    fn bounds(&self) -> (i64, i64);
    /// The most bytes that the decoded page uses, including lines if they were requested or a run is
    /// suspect.
    fn memory_bytes(&self) -> u64;
    /// Decodes everything except the lines, and narrows the runs to the selection.
    fn narrow(&mut self) -> Result<LogPage, Error>;
    /// Decodes the lines of all rows. Permitted only if the selection requested lines or a run of the
    /// narrowed page is suspect.
    fn lines(&mut self) -> Result<LineColumn, Error>;

    /// Clears the elements of `alive`, one per row of the page, whose lines fail the test; with
    /// `negated`, those whose lines pass it. Returns false, and changes nothing, if the page cannot test
    /// lines without building them. Permitted where [`PageTask::lines`] is.
    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error>;

    /// The lines of the wanted rows; others may be empty. Replaces [`PageTask::lines`]; to be called
    /// once.
    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error>;

    /// The parts of the wanted rows' lines that the reducer needs, instead of the lines; other rows may be
    /// empty. `None` if the page cannot provide parts of lines: then [`PageTask::lines_of`] is called.
    fn reduced(&mut self, _reducer: &dyn LineReducer, _wanted: &[bool]) -> Result<Option<LineColumn>, Error> {
        Ok(None)
    }
}

/// The result of a selection: items in the requested order. Prefetches while items are processed.
pub trait Scan: Send {
    /// The next item; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>>;
}

/// Requests the sizes of streams.
#[derive(Clone, Debug)]
pub struct StreamsRequest {
    /// Conditions on stream labels, all of which must match.
    pub matchers: Vec<Matcher>,
    /// Counts rows with a timestamp inside; minutes at its edges count completely.
    pub range: TimeRange,
}

/// The size of a stream in a time range, in complete minutes: for `index/stats` and `volume`.
#[derive(Clone, Debug)]
pub struct StreamVolume {
    /// The stream.
    pub labels: Arc<Labels>,
    /// Number of rows.
    pub lines: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Number of pages that contain them (Loki calls them "chunks").
    pub pages: u64,
}

/// An event for a follower.
pub enum Followed {
    /// New matching rows, with lines and metadata; followers of the same streams share the page.
    Page(Arc<LogPage>),
    /// The follower was too slow and missed this many rows.
    Dropped(u64),
}

/// Delivers new rows as they are acknowledged.
pub trait Follow: Send {
    /// Waits for the next event; `None` when the source is shutting down.
    fn next(&mut self) -> BoxFuture<'_, Option<Followed>>;

    /// Tells the source that the follower is still there, so that it goes on looking for rows of other
    /// processes at its usual interval. Must be called about each second. Returns warnings for rows that may
    /// be late now.
    fn keep_up(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Determines whether a result may have changed.
pub trait Versions: Send + Sync {
    /// The holdings that contain the tenant's rows in the range; `None` when the source cannot know. A
    /// change of the result over some time range also changes the versions of the holdings that touch
    /// the range, after the change becomes visible and before it is acknowledged.
    fn holdings(&self, _context: &QueryContext, _range: TimeRange) -> Option<Vec<Holding>> {
        None
    }

    /// A number that changes whenever the rows that deletes hide from the tenant's queries may have
    /// changed. A cached result is stored with the number that was read *before* the result was
    /// computed, and is used only while the number is the same.
    fn delete_generation(&self, _tenant: &TenantId) -> u64 {
        0
    }
}

/// A source of log rows. The context determines tenant, budget and deadline of every call.
pub trait LogSource: SeriesIndex + Versions {
    /// Starts reading rows.
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>>;

    /// Rows and bytes of each matching stream.
    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        request: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>>;

    /// Follows new rows of matching streams from now on.
    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error>;
}

//! `--verify`: reads every file again, and compares a random window of each archive with the server.
//!
//! A window is a range of points. The server must have every point of it, with the same bits. It may have
//! more points, which other senders have sent meanwhile. Where it has rollups in place of points, these
//! are compared with the rollups of the file's points.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use sandur_base::BoxFuture;
use sandur_cli::escape::escaped;
use sandur_model::{GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Labels};
use sandur_terminal::Failed;
use sandur_whisper::Point;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::file::Reader;
use super::report::NOTHING_FOUND;
use super::rolled::RolledSteps;
use super::tree::{Found, Tree};
use crate::import::stored::{DIFFERENCES_SHOWN_MAX, Series, Stored, selector};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// A comparison of files with a server.
pub struct Verification {
    /// The server.
    pub server: Stored,
    /// How files are read.
    pub reader: Reader,
    /// Seed of the windows, together with the file.
    pub seed: u64,
    /// Points per window.
    pub window: usize,
}

/// Counts of a comparison.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    files: u64,
    archives: u64,
    points: u64,
    further: u64,
    rolled: u64,
    /// Points and rollups.
    differing: u64,
    /// Files and folders.
    unreadable: u64,
}

/// A window of points of an archive.
struct Window {
    labels: Labels,
    points: Vec<Point>,
}

impl Verification {
    /// Compares every file below a folder.
    pub async fn run(self, folder: &Path, parallel: usize) -> Result<ExitCode, Failed> {
        eprintln!("comparing windows of up to {} points, --seed {}", self.window, self.seed);
        let mut pending: FuturesUnordered<BoxFuture<'_, Result<Tally, Failed>>> = FuturesUnordered::new();
        let mut tally = Tally::default();
        for found in Tree::below(folder) {
            match found {
                Ok(found) => pending.push(Box::pin(self.file(folder, found))),
                Err(text) => tally.cannot_read(&text),
            }
            while pending.len() >= parallel {
                tally.add(pending.next().await.transpose()?);
            }
        }
        while !pending.is_empty() {
            tally.add(pending.next().await.transpose()?);
        }
        let Tally { files, archives, points, further, rolled, differing, unreadable } = tally;
        eprintln!("compared {points} points of {archives} archives of {files} files: {differing} differ");
        if unreadable > 0 {
            eprintln!("{unreadable} files or folders cannot be read, so nothing of them was compared");
        }
        if further > 0 {
            eprintln!("the server has {further} more points, for example from senders that send to both");
        }
        if rolled > 0 {
            eprintln!("the server has rollups in place of {rolled} of the points (graphite.rollups)");
        }
        if files == 0 && unreadable == 0 {
            return Err(Failed::new(NOTHING_FOUND));
        }
        Ok(if differing == 0 && unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn file(&self, folder: &Path, found: Found) -> Result<Tally, Failed> {
        let mut tally = Tally { files: 1, ..Tally::default() };
        let (reader, seed, length) = (self.reader, self.seed, self.window);
        let (folder, path) = (PathBuf::from(folder), found.path.clone());
        let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
        let read =
            self.server.env.run_blocking(move || windows(&reader, &folder, &path, (seed, length))).await;
        let windows = match read {
            Ok(windows) => windows,
            Err(text) => {
                tally.files = 0;
                tally.cannot_read(&format!("{name}: {text}"));
                return Ok(tally);
            }
        };
        for window in windows {
            tally.archives += 1;
            tally.points += window.points.len() as u64;
            let stored = self.ask(&window).await?;
            let rolled = match window.is_whole(&stored) || window.labels.get(GRAPHITE_ARCHIVE).is_some() {
                true => RolledSteps::default(),
                false => self.ask_rolled(&window).await?,
            };
            window.compare(&name, stored, &rolled, &mut tally);
        }
        Ok(tally)
    }

    /// The server's points of a window, by timestamp in milliseconds.
    async fn ask(&self, window: &Window) -> Result<BTreeMap<i64, f64>, Failed> {
        let all = self.series(selector(window.labels.iter()), window, 0).await?;
        let wanted: BTreeMap<&str, &str> = window.labels.iter().collect();
        let is_wanted = |metric: &BTreeMap<String, String>| {
            metric.len() == wanted.len() && metric.iter().all(|(n, v)| wanted.get(&**n) == Some(&&**v))
        };
        let series = all.into_iter().find(|series| is_wanted(&series.metric));
        Ok(series.as_ref().map(by_time).unwrap_or_default())
    }

    /// The server's rollups of a window.
    async fn ask_rolled(&self, window: &Window) -> Result<RolledSteps, Failed> {
        let all = selector(window.labels.iter());
        let rollups = format!("{},{GRAPHITE_ROLLUP}!=\"\"}}", all.trim_end_matches('}'));
        // A step may begin a day before its last second.
        let series = self.series(rollups, window, DAY).await?;
        Ok(RolledSteps::of(series.into_iter().map(|one| (one.metric.clone(), by_time(&one))).collect()))
    }

    /// The matching series, with their points in a window and up to `before` seconds earlier.
    async fn series(&self, selector: String, window: &Window, before: i64) -> Result<Vec<Series>, Failed> {
        let bounds = window.points.first().zip(window.points.last());
        let Some((first, last)) = bounds else { return Ok(Vec::new()) };
        // A range selector ends at its time (inclusive) and begins its length before that (exclusive).
        let length = i64::from(last.time) - i64::from(first.time) + 1 + before;
        let query = format!("{selector}[{length}s]");
        self.server.series(query, last.time.to_string()).await
    }
}

/// The values of a series of an answer, by timestamp in milliseconds.
fn by_time(series: &Series) -> BTreeMap<i64, f64> {
    series.floats().filter_map(|(time, text)| Some((time, text.parse().ok()?))).collect()
}

/// A window of each archive with points.
fn windows(
    reader: &Reader,
    folder: &Path,
    path: &Path,
    (seed, length): (u64, usize),
) -> Result<Vec<Window>, String> {
    let contents = reader.read(folder, path)?;
    let windows = contents.series.into_iter().filter(|(_, kept)| !kept.points.is_empty());
    let windows = windows.map(|(labels, kept)| {
        let places = kept.points.len().saturating_sub(length) as u64 + 1;
        let start = (xxh3_64_with_seed(labels.to_string().as_bytes(), seed) % places) as usize;
        let end = (start + length).min(kept.points.len());
        Window { labels, points: kept.points[start..end].to_vec() }
    });
    Ok(windows.collect())
}

impl Window {
    /// Whether every point is stored, with any value.
    fn is_whole(&self, stored: &BTreeMap<i64, f64>) -> bool {
        self.points.iter().all(|point| stored.contains_key(&(i64::from(point.time) * 1_000)))
    }

    fn compare(&self, name: &str, mut stored: BTreeMap<i64, f64>, rolled: &RolledSteps, tally: &mut Tally) {
        for point in &self.points {
            let value = stored.remove(&(i64::from(point.time) * 1_000));
            if value.is_none() && rolled.hold(i64::from(point.time)) {
                tally.rolled += 1;
                continue;
            }
            let is_equal = value.is_some_and(|value| value.to_bits() == point.value.to_bits());
            if !is_equal {
                let archive = self.labels.get(GRAPHITE_ARCHIVE).unwrap_or("the finest");
                let stored = value.map_or_else(|| "nothing".to_owned(), |value| value.to_string());
                let Point { time, value } = point;
                let text = format!("{name}: archive {archive}, {time}: {value}, but the server has {stored}");
                tally.differs(&text);
            }
        }
        for text in rolled.differences(&self.points) {
            tally.differs(&format!("{name}: {text}"));
        }
        tally.further += stored.len() as u64;
    }
}

impl Tally {
    fn differs(&mut self, text: &str) {
        self.differing += 1;
        self.show(text);
    }

    fn cannot_read(&mut self, text: &str) {
        self.unreadable += 1;
        self.show(text);
    }

    fn show(&self, text: &str) {
        if self.differing + self.unreadable <= DIFFERENCES_SHOWN_MAX {
            eprintln!("sandur: {}", escaped(text));
        }
    }

    fn add(&mut self, other: Option<Self>) {
        let Some(other) = other else { return };
        self.files += other.files;
        self.archives += other.archives;
        self.points += other.points;
        self.further += other.further;
        self.rolled += other.rolled;
        self.differing += other.differing;
        self.unreadable += other.unreadable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that cannot be read were counted as points that differ.
    #[test]
    fn unreadable_files_are_not_points_that_differ() {
        let mut tally = Tally::default();
        tally.cannot_read("a.wsp: it is damaged");
        tally.add(Some(Tally { unreadable: 2, ..Tally::default() }));
        assert_eq!(tally, Tally { unreadable: 3, ..Tally::default() });
    }
}

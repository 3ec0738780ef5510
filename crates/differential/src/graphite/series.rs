//! Random series with gaps, read as whisper reads a file with one archive.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_graphite::{Column, Fetched, Found, Pattern, Selector, Source, TagExpression, Window, parse_name};
use sandur_query::{Error, QueryContext};
use serde_json::{Value, json};

use crate::random::Random;

/// The current time of all requests, in seconds since the epoch.
pub const NOW: i64 = 1_615_809_637;
/// Seconds before the present that have values.
pub const LENGTH: i64 = 3 * 3600;
/// Seconds that a file retains.
const RETENTION: i64 = 2 * 86_400;

/// Paths and steps: one metric with another step than its neighbours, names with common parts, and one
/// alone.
const PATHS: &[(&str, i64)] = &[
    ("app.web1.cpu.user", 60),
    ("app.web1.cpu.system", 60),
    ("app.web1.cpu.idle", 60),
    ("app.web1.requests", 10),
    ("app.web2.cpu.user", 60),
    ("app.web2.cpu.system", 60),
    ("app.web2.cpu.idle", 300),
    ("app.web2.requests", 10),
    ("app.db-1.cpu.user", 60),
    ("app.db-1.cpu.system", 300),
    ("app.db-1.disk.sda_used", 300),
    ("app.db-1.disk.sdb_used", 300),
    ("app.db-1.requests", 60),
    ("dev.web1.cpu.user", 60),
    ("dev.web1.cpu.system", 60),
    ("dev.web1.requests", 10),
    ("dev.empty.requests", 60),
    ("total", 60),
    ("jobs.1.done", 3600),
    ("disk.used;dc=eu;host=web1", 60),
    ("disk.used;dc=eu;host=web2", 60),
    ("disk.used;dc=us;host=web1", 300),
    ("disk.free;dc=eu;host=web1", 60),
    ("hits;host=web1;url=/a.b", 60),
];

/// A series.
#[derive(Clone, Debug)]
pub struct RandomSeries {
    /// Its name.
    pub name: &'static str,
    /// The step in seconds.
    pub step: i64,
    /// Times in seconds since the epoch and values, the last ones first.
    pub values: Vec<(i64, f64)>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct RandomEvent {
    /// The time in seconds since the epoch.
    pub when: i64,
    /// Its tags.
    pub tags: Vec<&'static str>,
}

/// The data that both sides have.
#[derive(Clone, Debug)]
pub struct Known {
    /// The series.
    pub series: Vec<RandomSeries>,
    /// The events.
    pub events: Vec<RandomEvent>,
}

impl Known {
    /// Returns the series and events of a seed.
    pub fn random(seed: u64) -> Self {
        let one = |(index, (name, step)): (usize, &(&'static str, i64))| {
            let random = &mut Random::fork(seed, 1 << 40 | index as u64);
            let values = if name.contains("empty") { Vec::new() } else { values(random, *step) };
            RandomSeries { name, step: *step, values }
        };
        let random = &mut Random::fork(seed, 1 << 41);
        let event = |random: &mut Random| RandomEvent {
            when: NOW - random.between(0, LENGTH),
            tags: if random.chance(50) { vec!["deploy", "web"] } else { vec!["deploy"] },
        };
        let events = (0..12).map(|_| event(random)).collect();
        Self { series: PATHS.iter().enumerate().map(one).collect(), events }
    }

    /// Returns everything as JSON for the program of graphite-web.
    pub fn to_json(&self) -> Value {
        let series = self.series.iter().map(|one| {
            json!({"name": one.name, "step": one.step, "points": RETENTION / one.step, "values": one.values})
        });
        let events = self.events.iter().map(|one| json!({"when": one.when, "what": "x", "tags": one.tags}));
        json!({"now": NOW, "series": series.collect::<Vec<_>>(), "events": events.collect::<Vec<_>>()})
    }
}

/// Returns values in one of several shapes, with gaps of several lengths.
fn values(random: &mut Random, step: i64) -> Vec<(i64, f64)> {
    let shape = random.below(8);
    let mut last = random.between(-5, 50) as f64;
    let gaps = [0, 0, 3, 10, 40][random.below(5)];
    let mut gap = 0;
    let mut values = Vec::new();
    let mut time = NOW - LENGTH - (NOW - LENGTH).rem_euclid(step);
    while time <= NOW {
        let share = random.below(10_000) as f64 / 10_000.0;
        last = match shape {
            0 => last + (share * 10.0).floor(),
            1 if random.chance(4) => 0.0,
            1 => last + share * 100.0,
            2 => share * 100.0,
            3 => (share * 8.0).floor() - 3.0,
            4 => last + share - 0.5,
            5 => [0.0, -0.0, 1.0, 1e15, -1e15, 1e-9, 0.1, 1e300][random.below(8)],
            6 => 7.0,
            _ => f64::from(u8::from(random.chance(50))),
        };
        if gap == 0 && random.chance(gaps) {
            gap = 1 + random.below(6);
        }
        match gap {
            0 => values.push((time, last)),
            _ => gap -= 1,
        }
        time += step;
    }
    values.reverse();
    values
}

impl RandomSeries {
    /// Returns the time of the first value, the time after the last, and the values; `None` outside of
    /// the retention.
    fn read(&self, window: Window) -> Option<(i64, i64, Vec<Option<f64>>)> {
        let oldest = window.now - RETENTION / self.step * self.step;
        if window.from > window.now || window.until < oldest {
            return None;
        }
        let (from, until) = (window.from.max(oldest), window.until.min(window.now));
        let after = |time: i64| time - time.rem_euclid(self.step) + self.step;
        let (start, mut end) = (after(from), after(until));
        if start == end {
            end += self.step;
        }
        let mut values = vec![None; usize::try_from((end - start) / self.step).ok()?];
        for (time, value) in self.values.iter().filter(|(time, _)| (start..end).contains(time)) {
            values[((time - start) / self.step) as usize] = Some(*value);
        }
        Some((start, end, values))
    }

    fn is_selected(&self, selector: Selector<'_>) -> bool {
        match selector {
            Selector::Path(pattern) => !self.name.contains(';') && pattern.matches(self.name),
            Selector::Name(wanted) => self.name == wanted,
            Selector::Tags(expressions) => {
                let Ok(tags) = parse_name(self.name) else { return false };
                expressions.iter().all(|one| one.fits(tags.get(&one.tag).unwrap_or_default()))
            }
        }
    }
}

impl Source for Known {
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
        async move {
            let mut found = Vec::new();
            for one in self.series.iter().filter(|one| one.is_selected(selector)) {
                let Some((start, end, values)) = one.read(window) else { continue };
                let values = Column::in_budget(context.budget(), values.into_iter())?;
                found.push(Fetched { name: one.name.to_owned(), start, end, step: one.step, values });
            }
            Ok(found)
        }
        .boxed()
    }

    fn nodes<'a>(
        &'a self,
        _: &'a QueryContext,
        _: &'a Pattern,
        _: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn tagged<'a>(
        &'a self,
        _: &'a QueryContext,
        expressions: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let mut names: Vec<String> = self
            .series
            .iter()
            .filter(|one| one.name.contains(';') && one.is_selected(Selector::Tags(expressions)))
            .map(|one| one.name.to_owned())
            .collect();
        names.sort();
        async { Ok(names) }.boxed()
    }

    fn events<'a>(
        &'a self,
        _: &'a QueryContext,
        tags: &'a [String],
        from: i64,
        until: i64,
    ) -> BoxFuture<'a, Result<Vec<i64>, Error>> {
        let has_all = |own: &[&str]| tags.iter().all(|tag| own.contains(&tag.as_str()));
        let fitting = self.events.iter().filter(|one| (from..=until).contains(&one.when));
        let times = fitting.filter(|one| has_all(&one.tags)).map(|one| one.when).collect();
        async move { Ok(times) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_reproducible_and_have_gaps() {
        let (one, two) = (Known::random(3), Known::random(3));
        assert_eq!(one.to_json(), two.to_json());
        assert_ne!(one.to_json(), Known::random(4).to_json());
        let full = |one: &RandomSeries| one.values.len() as i64 > LENGTH / one.step;
        assert!(!one.series.iter().all(full) && one.series.iter().any(full));
    }

    #[test]
    fn a_window_is_read_as_from_a_whisper_file() {
        let one = RandomSeries { name: "a", step: 60, values: vec![(NOW - 37, 1.0)] };
        let window = Window { from: NOW - 130, until: NOW, now: NOW };
        let (start, end, values) = one.read(window).unwrap();
        assert_eq!((start, end), (NOW - 97, NOW + 23));
        assert_eq!(values, [None, Some(1.0)]);
    }
}

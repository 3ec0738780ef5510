//! Stores series in memory and reads them as whisper does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_graphite::{
    Column, Fetched, Found, Names, Pattern, Selector, Source, TagExpression, Tags, Wanted, Window,
    canonical_name, parse_name,
};
use sandur_query::{Error, QueryContext};
use serde_json::Value;

use super::cases::string;

/// Series and events in memory.
#[derive(Default)]
pub(super) struct Stored {
    series: BTreeMap<String, Vec<Archive>>,
    events: Vec<(i64, Vec<String>)>,
    announced: Mutex<BTreeSet<String>>,
}

/// The values of one step.
struct Archive {
    step: i64,
    retention: i64,
    values: BTreeMap<i64, f64>,
}

fn seconds(text: &str) -> Option<i64> {
    let cut = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[cut..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    Some(text[..cut].parse::<i64>().ok()? * unit)
}

fn points(list: &Value, step: i64) -> BTreeMap<i64, f64> {
    let pair = |pair: &Value| {
        let time = pair[0].as_i64()?;
        Some((time - time.rem_euclid(step), pair[1].as_f64()?))
    };
    list.as_array().into_iter().flatten().filter_map(pair).collect()
}

impl Stored {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(text).map_err(|error| format!("stored.json.gz: {error}"))?;
        let mut stored = Self::default();
        for series in whole["series"].as_array().into_iter().flatten() {
            let name = string(series, "name").to_owned();
            let archives = match series["archives"].as_array() {
                Some(archives) => archives.iter().map(Archive::read).collect(),
                None => Archive::single(series),
            };
            let archives: Option<Vec<Archive>> = archives;
            let archives = archives.ok_or_else(|| format!("stored.json.gz: {name} cannot be read"))?;
            stored.series.insert(name, archives);
        }
        for event in whole["events"].as_array().into_iter().flatten() {
            let tags = string(event, "tags").split_whitespace().map(str::to_owned).collect();
            stored.events.push((event["when"].as_i64().unwrap_or(0), tags));
        }
        Ok(stored)
    }

    fn has_tags(name: &str, expressions: &[TagExpression]) -> bool {
        let Ok(tags) = parse_name(name) else { return false };
        expressions.iter().all(|one| one.fits(tags.get(&one.tag).unwrap_or_default()))
    }

    fn is_selected(name: &str, selector: Selector<'_>) -> bool {
        match selector {
            Selector::Path(pattern) => !name.contains(';') && pattern.matches(name),
            Selector::Name(wanted) => name == wanted,
            Selector::Tags(expressions) => Self::has_tags(name, expressions),
        }
    }
}

impl Stored {
    /// Returns the canonical names and tags of the series whose tags match, in order.
    fn names_by_tags(&self, expressions: &[TagExpression]) -> BTreeMap<String, Tags> {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = self.series.keys().chain(announced.iter());
        let fitting = fitting.filter(|name| Self::has_tags(name, expressions));
        let tags = fitting.filter_map(|name| parse_name(name).ok());
        tags.map(|tags| (canonical_name(&tags), tags)).collect()
    }
}

impl Names for Stored {
    fn paths<'a>(&'a self, _: &'a QueryContext, limit: usize) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let paths = self.series.keys().filter(|name| !name.contains(';')).take(limit).cloned().collect();
        async move { Ok(paths) }.boxed()
    }

    fn tags<'a>(
        &'a self,
        _: &'a QueryContext,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let series = self.names_by_tags(wanted.expressions);
        let names = series.values().flat_map(|tags| tags.iter().map(|(tag, _)| tag));
        let names: BTreeSet<&str> = names.filter(|name| wanted.filter.fits(name)).collect();
        let names = names.into_iter().take(wanted.limit).map(str::to_owned).collect();
        async move { Ok(names) }.boxed()
    }

    fn values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let counted = self.counted_values(context, tag, wanted);
        async move { Ok(counted.await?.into_iter().map(|(value, _)| value).collect()) }.boxed()
    }

    fn counted_values<'a>(
        &'a self,
        _: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<(String, u64)>, Error>> {
        let mut counts = BTreeMap::new();
        let series = self.names_by_tags(wanted.expressions);
        for value in series.values().filter_map(|tags| tags.get(tag)) {
            if wanted.filter.fits(value) {
                *counts.entry(value.to_owned()).or_insert(0) += 1;
            }
        }
        async move { Ok(counts.into_iter().take(wanted.limit).collect()) }.boxed()
    }

    fn add<'a>(&'a self, _: &'a QueryContext, series: &'a [String]) -> BoxFuture<'a, Result<(), Error>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner).extend(series.iter().cloned());
        async { Ok(()) }.boxed()
    }

    fn remove<'a>(&'a self, _: &'a QueryContext, series: &'a [String]) -> BoxFuture<'a, Result<(), Error>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner).retain(|name| !series.contains(name));
        async { Ok(()) }.boxed()
    }
}

impl Archive {
    fn read(archive: &Value) -> Option<Self> {
        let step = archive["secondsPerPoint"].as_i64()?;
        let retention = step * archive["points"].as_i64()?;
        Some(Self { step, retention, values: points(&archive["data"], step) })
    }

    /// Reads the only archive of a series.
    fn single(series: &Value) -> Option<Vec<Self>> {
        let (step, length) = string(series, "retentions").split_once(':')?;
        let step = seconds(step)?;
        let retention = match length.bytes().all(|byte| byte.is_ascii_digit()) {
            true => length.parse::<i64>().ok()? * step,
            false => seconds(length)?,
        };
        Some(vec![Self { step, retention, values: points(&series["points"], step) }])
    }
}

/// Returns the time of the first value, the time after the last one, the step, and the values; `None`
/// when the window is outside of the retention. Times are in seconds.
fn read(archives: &[Archive], window: Window) -> Option<(i64, i64, i64, Vec<Option<f64>>)> {
    let longest = archives.iter().map(|archive| archive.retention).max()?;
    let oldest = window.now - longest;
    if window.from > window.now || window.until < oldest {
        return None;
    }
    let (from, until) = (window.from.max(oldest), window.until.min(window.now));
    let fits = archives.iter().find(|archive| archive.retention >= window.now - from);
    let archive = fits.or(archives.last())?;
    let after = |time: i64| time - time.rem_euclid(archive.step) + archive.step;
    let (start, mut end) = (after(from), after(until));
    if start == end {
        end += archive.step;
    }
    let values = (start..end).step_by(archive.step as usize).map(|time| archive.values.get(&time).copied());
    Some((start, end, archive.step, values.collect()))
}

impl Source for Stored {
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
        async move {
            let mut found = Vec::new();
            for (name, archives) in self.series.iter().filter(|(name, _)| Self::is_selected(name, selector)) {
                let Some((start, end, step, values)) = read(archives, window) else { continue };
                let values = Column::in_budget(context.budget(), values.into_iter())?;
                found.push(Fetched { name: name.clone(), start, end, step, values });
            }
            Ok(found)
        }
        .boxed()
    }

    fn nodes<'a>(
        &'a self,
        _: &'a QueryContext,
        pattern: &'a Pattern,
        _: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        let mut found = Vec::new();
        if self.series.contains_key(pattern.text()) {
            found.push(Found { path: pattern.text().to_owned(), is_leaf: true });
        }
        for name in self.series.keys().filter(|name| !name.contains(';')) {
            let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
            for path in ends.map(|end| &name[..end]).filter(|path| pattern.matches(path)) {
                found.push(Found { path: path.to_owned(), is_leaf: path == name });
            }
        }
        found.sort();
        found.dedup();
        async move { Ok(found) }.boxed()
    }

    fn tagged<'a>(
        &'a self,
        _: &'a QueryContext,
        expressions: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let names = self.names_by_tags(expressions).into_keys().collect();
        async move { Ok(names) }.boxed()
    }

    fn events<'a>(
        &'a self,
        _: &'a QueryContext,
        tags: &'a [String],
        from: i64,
        until: i64,
    ) -> BoxFuture<'a, Result<Vec<i64>, Error>> {
        let fits = |own: &Vec<String>| tags.iter().all(|tag| own.contains(tag));
        let all = self.events.iter().filter(|(time, own)| (from..=until).contains(time) && fits(own));
        let times = all.map(|(time, _)| *time).collect();
        async move { Ok(times) }.boxed()
    }
}

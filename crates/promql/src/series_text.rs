//! Reads series descriptions of tests: a metric, then its samples, with short forms for repetitions and
//! native histograms, as in Prometheus's test scripts and in unit tests of rules.
//!
//! **Invariant.** The samples of a description are bounded ([`SAMPLES_MAX`]), and so are the histograms of
//! one repetition ([`HISTOGRAMS_MAX`]).

use std::sync::Arc;

use sandur_model::histogram::{Buckets, CounterReset};
use sandur_model::{FloatHistogram, Labels, STALE_BITS};

use crate::parser::parse_metric;
use crate::text::parse_number;

/// The most samples of a description.
pub const SAMPLES_MAX: usize = 1_000_000;
/// The most histograms of a repetition.
pub const HISTOGRAMS_MAX: usize = 10_000;

/// One sample of a series description.
#[derive(Clone, Debug)]
pub enum Sample {
    /// There is no sample at this time.
    Omitted,
    /// A float sample.
    Float(f64),
    /// A histogram, and whether the description gives its counter reset hint.
    Histogram(Arc<FloatHistogram>, bool),
}

/// Splits a description into its metric and the rest.
pub fn split_metric(line: &str) -> Result<(Labels, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    let mut braces = 0;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(open), '\\') if open != '`' => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '{') => braces += 1,
            (None, '}') => {
                end = at + 1;
                break;
            }
            (None, ' ' | '\t') if braces == 0 => {
                let rest = line[at..].trim_start();
                // A blank may stand before the braces, but those of a histogram begin a sample.
                if rest.starts_with('{') && !rest.starts_with("{{") {
                    continue;
                }
                end = at;
                break;
            }
            _ => {}
        }
    }
    let labels = parse_metric(line[..end].trim()).map_err(|e| e.to_string())?;
    Ok((labels, line[end..].trim_start()))
}

/// Reads a complete series description.
pub fn parse(line: &str) -> Result<(Labels, Vec<Sample>), String> {
    let (labels, rest) = split_metric(line)?;
    Ok((labels, parse_samples(rest)?))
}

/// Reads the samples of a description.
pub fn parse_samples(text: &str) -> Result<Vec<Sample>, String> {
    let mut rest = text.trim();
    let mut samples = Vec::new();
    while !rest.is_empty() {
        let (item, after) = next_item(rest)?;
        expand(item, &mut samples).map_err(|what| format!("'{item}': {what}"))?;
        rest = after.trim_start();
        if samples.len() > SAMPLES_MAX {
            return Err(too_many(SAMPLES_MAX));
        }
    }
    Ok(samples)
}

fn too_many(most: usize) -> String {
    format!("more than {most} samples")
}

/// Returns the next item, which ends at a blank outside of braces, and the rest.
fn next_item(text: &str) -> Result<(&str, &str), String> {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ' ' | '\t' if depth == 0 => return Ok(text.split_at(at)),
            _ => {}
        }
    }
    if depth == 0 { Ok((text, "")) } else { Err(format!("'{text}': unclosed braces")) }
}

fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().map_err(|_| format!("'{text}' is not a number of repetitions"))?;
    if count > SAMPLES_MAX { Err(too_many(SAMPLES_MAX)) } else { Ok(count) }
}

fn expand(item: &str, samples: &mut Vec<Sample>) -> Result<(), String> {
    if item == "_" {
        samples.push(Sample::Omitted);
        return Ok(());
    }
    if let Some(times) = item.strip_prefix("_x") {
        samples.extend(std::iter::repeat_n(Sample::Omitted, count(times)?));
        return Ok(());
    }
    if item.starts_with("{{") {
        return expand_histogram(item, samples);
    }
    let (body, times) = match item.rsplit_once('x') {
        Some((body, times)) => (body, Some(count(times)?)),
        None => (item, None),
    };
    if body == "stale" {
        let stale = Sample::Float(f64::from_bits(STALE_BITS));
        samples.extend(std::iter::repeat_n(stale, times.map_or(1, |times| times + 1)));
        return Ok(());
    }
    let mut value = body;
    let mut increment = 0.0;
    if times.is_some() {
        // The sign of an increment. It is neither the first character nor the sign of an exponent.
        let sign = body
            .char_indices()
            .skip(1)
            .find(|(at, c)| matches!(c, '+' | '-') && !matches!(body.as_bytes()[at - 1], b'e' | b'E'));
        if let Some((at, sign)) = sign {
            increment = number(&body[at + 1..])?;
            increment = if sign == '-' { -increment } else { increment };
            value = &body[..at];
        }
    }
    let mut value = number(value)?;
    for _ in 0..=times.unwrap_or(0) {
        samples.push(Sample::Float(value));
        value += increment;
    }
    Ok(())
}

/// Reads a number that may have a sign.
pub fn number(text: &str) -> Result<f64, String> {
    match text.strip_prefix('-') {
        Some(rest) => parse_number(rest).map(|n| -n),
        None => parse_number(text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A number of histograms, each of which uses memory of its own.
fn histograms(text: &str) -> Result<usize, String> {
    let count = count(text)?;
    if count > HISTOGRAMS_MAX { Err(too_many(HISTOGRAMS_MAX)) } else { Ok(count) }
}

fn expand_histogram(item: &str, samples: &mut Vec<Sample>) -> Result<(), String> {
    let end = item.find("}}").ok_or("unclosed braces")? + 2;
    let (base, hint) = histogram(&item[2..end - 2])?;
    let rest = &item[end..];
    if rest.is_empty() {
        samples.push(Sample::Histogram(Arc::new(base), hint));
        return Ok(());
    }
    if let Some(times) = rest.strip_prefix('x') {
        let sample = Sample::Histogram(Arc::new(base), hint);
        samples.extend(std::iter::repeat_n(sample, histograms(times)? + 1));
        return Ok(());
    }
    let subtract = rest.starts_with('-');
    let rest = rest.strip_prefix(['+', '-']).and_then(|r| r.strip_prefix("{{")).ok_or("no increment")?;
    let (text, times) = rest.split_once("}}x").ok_or("an increment without repetitions")?;
    let (increment, hint) = histogram(text)?;
    let mut current = base;
    samples.push(Sample::Histogram(Arc::new(current.clone()), hint));
    for _ in 0..histograms(times)? {
        let added = if subtract { current.subtract(&increment) } else { current.add(&increment) };
        added.map_err(|e| e.to_string())?;
        samples.push(Sample::Histogram(Arc::new(current.clone()), hint));
    }
    Ok(())
}

/// Reads the text between the braces of a histogram. Also returns whether it gives a counter reset hint.
fn histogram(text: &str) -> Result<(FloatHistogram, bool), String> {
    let mut made = FloatHistogram::default();
    let (mut offsets, mut counts) = ([0i32; 2], [Vec::new(), Vec::new()]);
    let mut hint = false;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once(':').ok_or_else(|| format!("'{rest}' has no value"))?;
        let end = match after.strip_prefix('[') {
            Some(_) => after.find(']').ok_or("unclosed brackets")? + 1,
            None => after.find([' ', '\t']).unwrap_or(after.len()),
        };
        let (value, after) = after.split_at(end);
        rest = after.trim_start();
        let integer = || value.parse::<i32>().map_err(|_| format!("'{value}' is not an integer"));
        let list = || -> Result<Vec<f64>, String> {
            value.trim_matches(['[', ']']).split_whitespace().map(number).collect()
        };
        match key {
            "schema" => made.schema = integer()?,
            "sum" => made.sum = number(value)?,
            "count" => made.count = number(value)?,
            "z_bucket" => made.zero_count = number(value)?,
            "z_bucket_w" => made.zero_threshold = number(value)?,
            "custom_values" => made.bounds = list()?.into(),
            "buckets" => counts[0] = list()?,
            "n_buckets" => counts[1] = list()?,
            "offset" => offsets[0] = integer()?,
            "n_offset" => offsets[1] = integer()?,
            "counter_reset_hint" => {
                hint = true;
                made.reset = match value {
                    "unknown" => CounterReset::Unknown,
                    "reset" => CounterReset::Reset,
                    "not_reset" => CounterReset::NotReset,
                    "gauge" => CounterReset::Gauge,
                    _ => return Err(format!("unknown hint '{value}'")),
                };
            }
            _ => return Err(format!("unknown histogram field '{key}'")),
        }
    }
    let [positive, negative] = counts;
    let buckets =
        |first: i32, counts: Vec<f64>| Buckets { indices: (first..).take(counts.len()).collect(), counts };
    made.positive = buckets(offsets[0], positive);
    made.negative = buckets(offsets[1], negative);
    Ok((made, hint))
}

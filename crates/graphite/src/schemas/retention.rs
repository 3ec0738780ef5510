//! `retentions = 10s:6h,1m:7d`: a step and how many values or how long.

use super::archive::Archive;

/// Longest step and longest retention, in seconds: a thousand years.
const SECONDS_MAX: i64 = 1000 * 365 * 86_400;
/// Most archives of a rule.
const ARCHIVES_MAX: usize = 64;

/// Units by their names, of which any beginning will do.
const UNITS: [(&str, i64); 6] = [
    ("seconds", 1),
    ("minutes", 60),
    ("hours", 3600),
    ("days", 86_400),
    ("weeks", 7 * 86_400),
    ("years", 365 * 86_400),
];

/// Reads archives, which must fit each other as whisper wants it.
pub(super) fn archives_of(text: &str) -> Result<Vec<Archive>, String> {
    let mut archives = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        archives.push(archive_of(part)?);
        if archives.len() > ARCHIVES_MAX {
            return Err(format!("there are more than {ARCHIVES_MAX} archives"));
        }
    }
    archives.sort_by_key(|archive| archive.step);
    if archives.is_empty() {
        return Err("there is no archive".to_owned());
    }
    for pair in archives.windows(2) {
        let [finer, coarser] = pair else { continue };
        let (step, next) = (finer.step, coarser.step);
        if step == next {
            return Err(format!("the step of {step} s is there twice"));
        }
        if next % step != 0 {
            return Err(format!("the step of {next} s is no multiple of {step} s, the one before"));
        }
        if coarser.retention <= finer.retention {
            return Err(format!("the archive of {next} s must reach back longer than that of {step} s"));
        }
        if finer.retention / step < next / step {
            return Err(format!("the archive of {step} s has fewer values than one of {next} s is made of"));
        }
    }
    Ok(archives)
}

fn archive_of(text: &str) -> Result<Archive, String> {
    let wrong = || format!("'{text}' is no step and retention, such as 10s:6h or 60:1440");
    let too_long = || format!("'{text}' is too long: a step or retention is {SECONDS_MAX} seconds at most");
    let (step, length) = text.split_once(':').ok_or_else(wrong)?;
    let (step, _) = seconds(step.trim()).ok_or_else(wrong)?;
    let (length, has_unit) = seconds(length.trim()).ok_or_else(wrong)?;
    if step <= 0 || step > SECONDS_MAX {
        return Err(if step <= 0 { wrong() } else { too_long() });
    }
    let points = if has_unit { length / step } else { length };
    let retention = points.checked_mul(step).filter(|seconds| *seconds <= SECONDS_MAX);
    let retention = retention.ok_or_else(too_long)?;
    if retention <= 0 { Err(wrong()) } else { Ok(Archive { step, retention }) }
}

/// A number with or without a unit, in seconds, and whether it has one.
fn seconds(text: &str) -> Option<(i64, bool)> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: i64 = digits.parse().ok()?;
    if unit.is_empty() {
        return Some((number, false));
    }
    let (_, seconds) = UNITS.iter().find(|(name, _)| name.starts_with(unit))?;
    Some((number.checked_mul(*seconds)?, true))
}

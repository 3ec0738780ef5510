//! `retentions = 10s:6h,1m:7d`: steps, each with a number of values or a duration.

use super::archive::Archive;

/// The longest step and retention, in seconds: a thousand years.
const SECONDS_MAX: i64 = 1000 * 365 * 86_400;
/// The most archives of a rule.
const ARCHIVES_MAX: usize = 64;

/// Units by name; any prefix of a name is valid.
const UNITS: [(&str, i64); 6] = [
    ("seconds", 1),
    ("minutes", 60),
    ("hours", 3600),
    ("days", 86_400),
    ("weeks", 7 * 86_400),
    ("years", 365 * 86_400),
];

/// Parses archives, which must be consistent by whisper's rules.
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
            return Err(format!("the step of {step} s occurs twice"));
        }
        if next % step != 0 {
            return Err(format!("the step of {next} s is not a multiple of {step} s, the previous one"));
        }
        if coarser.retention <= finer.retention {
            return Err(format!("the archive of {next} s must reach back longer than that of {step} s"));
        }
        if finer.retention / step < next / step {
            return Err(format!(
                "the archive of {step} s has fewer values than one value of {next} s aggregates"
            ));
        }
    }
    Ok(archives)
}

fn archive_of(text: &str) -> Result<Archive, String> {
    let wrong = || format!("'{text}' is not a step and a retention, such as 10s:6h or 60:1440");
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

/// Parses a number with or without a unit. Returns seconds, and whether there is a unit.
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

//! The methods of Go's `time.Time`: `__timestamp__.Unix`, `$t.Format "15:04"`.

use super::arguments::text_argument;
use super::time::{DAYS, MONTHS, ZERO_SECONDS, civil, write, write_time};
use crate::template::results::Results;
use crate::template::value::Instant;
use crate::template::value::Value;

/// Calls the method of a time.
pub fn call(results: &Results, instant: Instant, method: &str, arguments: &[Value]) -> Result<Value, String> {
    let other = match (method, arguments) {
        ("Format", [layout]) => {
            let layout = text_argument(layout)?;
            return results.text(|out| write(instant, layout, out));
        }
        ("Before" | "After" | "Equal" | "Compare", [Value::Time(other)]) => {
            order(instant).cmp(&order(*other))
        }
        (_, []) => return plain(results, instant, method),
        _ => return Err(format!("wrong number of args for {method}: got {}", arguments.len())),
    };
    Ok(match method {
        "Before" => Value::Bool(other.is_lt()),
        "After" => Value::Bool(other.is_gt()),
        "Equal" => Value::Bool(other.is_eq()),
        _ => Value::Int(other as i64),
    })
}

/// A sort key: Go's zero time is before any other.
fn order(instant: Instant) -> (bool, i64) {
    (!instant.zero, instant.ns)
}

fn plain(results: &Results, instant: Instant, method: &str) -> Result<Value, String> {
    let time = civil(instant);
    let since = |unit: i64| {
        let seconds = ZERO_SECONDS.saturating_mul(1_000_000_000 / unit);
        Value::Int(if instant.zero { seconds } else { instant.ns.div_euclid(unit) })
    };
    Ok(match method {
        "Unix" => since(1_000_000_000),
        "UnixMilli" => since(1_000_000),
        "UnixMicro" => since(1_000),
        "UnixNano" => since(1),
        "Year" => Value::Int(time.year().into()),
        "Month" => Value::Text(results.copy(MONTHS[time.month() as usize - 1])?),
        "Day" => Value::Int(time.day().into()),
        "YearDay" => Value::Int(time.day_of_year().into()),
        "Weekday" => Value::Text(results.copy(DAYS[time.weekday().to_sunday_zero_offset() as usize])?),
        "Hour" => Value::Int(time.hour().into()),
        "Minute" => Value::Int(time.minute().into()),
        "Second" => Value::Int(time.second().into()),
        "Nanosecond" => Value::Int(time.subsec_nanosecond().into()),
        "UTC" | "Local" => Value::Time(Instant { offset: 0, ..instant }),
        "IsZero" => Value::Bool(instant.zero),
        "String" => results.text(|out| write_time(instant, out))?,
        _ => return Err(format!("can't evaluate field {method} in type time.Time")),
    })
}

//! Starts of days, hours and other units in the time zone of a request.

use jiff::SignedDuration;

use crate::attime::Unit;
use crate::zone::Moment;

/// The start of the unit that includes a moment.
pub(super) fn begin_of(moment: Moment, unit: Unit) -> Option<Moment> {
    let local = moment.civil()?;
    let midnight = local.date().at(0, 0, 0, 0);
    let begin = match unit {
        Unit::Years => jiff::civil::date(local.year(), 1, 1).at(0, 0, 0, 0),
        Unit::Months => local.date().first_of_month().at(0, 0, 0, 0),
        Unit::Weeks | Unit::Days => midnight,
        Unit::Hours => local.date().at(local.hour(), 0, 0, 0),
        Unit::Minutes => local.date().at(local.hour(), local.minute(), 0, 0),
        Unit::Seconds => local,
    };
    Some(moment.at_civil(begin))
}

/// The start of the unit with this name. The name of weeks may have the number of their first day, 1 for
/// Monday.
pub(super) fn aligned_to(moment: Moment, name: &str) -> Option<Moment> {
    let unit = Unit::parse(name)?;
    let begin = begin_of(moment, unit)?;
    if unit != Unit::Weeks {
        return Some(begin);
    }
    let first = match name.chars().last()? {
        letter if letter.is_alphabetic() => 1,
        digit => i64::from(digit.to_digit(10)?),
    };
    let local = begin.civil()?;
    let days = i64::from(local.weekday().to_monday_one_offset()) - first;
    let days = if days < 0 { days + 7 } else { days };
    Some(begin.at_civil(local.checked_sub(SignedDuration::from_hours(24 * days)).ok()?))
}

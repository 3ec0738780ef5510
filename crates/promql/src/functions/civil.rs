//! Converts timestamps to dates and times of day, in UTC.

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
    /// The day of the week; Sunday is 0.
    pub weekday: u32,
    /// The day of the year, from 1.
    pub year_day: u32,
    /// The hour, from 0 to 23.
    pub hour: u32,
    /// The minute, from 0 to 59.
    pub minute: u32,
    /// The second, from 0 to 59.
    pub second: u32,
}

/// The days before each month, in a year without leap day.
const DAYS_BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
/// The first second of Go's calendar; earlier ones wrap around to the far future.
const SECONDS_MIN: i64 = -9_223_372_028_715_321_600;

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

impl Civil {
    /// Converts seconds since 1970. A number that does not fit into 64 bits becomes the least integer, as
    /// in Go on x86-64.
    pub fn of_float(seconds: f64) -> Self {
        let fits = seconds >= i64::MIN as f64 && seconds < i64::MAX as f64;
        Self::of_seconds(if fits { seconds as i64 } else { i64::MIN })
    }

    /// Converts seconds since 1970.
    pub fn of_seconds(seconds: i64) -> Self {
        let wrapped = if seconds < SECONDS_MIN { 1i128 << 64 } else { 0 };
        let seconds = i128::from(seconds) + wrapped;
        let (days, rest) = (seconds.div_euclid(86_400) as i64, seconds.rem_euclid(86_400) as u32);
        // Eras of 400 years that begin in March, so that a leap day is the last day of a year.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * from_march + 2) / 5 + 1) as u32;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = u32::from(is_leap(year) && month > 2);
        Self {
            year,
            month,
            day,
            weekday: (days + 4).rem_euclid(7) as u32,
            year_day: DAYS_BEFORE[month as usize - 1] + day + leap,
            hour: rest / 3_600,
            minute: rest % 3_600 / 60,
            second: rest % 60,
        }
    }

    /// The number of days in its month.
    pub fn days_in_month(&self) -> u32 {
        match self.month {
            2 => 28 + u32::from(is_leap(self.year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// Formats milliseconds since 1970 in RFC 3339, to the second.
pub fn rfc3339(ms: i64) -> String {
    // Rounded towards zero.
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of_seconds(ms / 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_become_the_same_date_as_in_go() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
            let Civil { year, month, day, hour, minute, second, year_day, .. } = Civil::of_float(wrong);
            let found = (year, month, day, hour, minute, second, year_day);
            assert_eq!(found, (292_277_026_596, 12, 4, 15, 30, 8, 339), "{wrong}");
        }
        assert_eq!(Civil::of_float(-1.5), Civil::of_seconds(-1), "towards zero");
    }

    #[test]
    fn the_calendar_is_right_at_leap_days_and_ends_of_years() {
        for (seconds, text, weekday, year_day, days) in [
            (0, "1970-01-01T00:00:00Z", 4, 1, 31),
            (951_782_400, "2000-02-29T00:00:00Z", 2, 60, 29),
            (1_709_251_199, "2024-02-29T23:59:59Z", 4, 60, 29),
            (1_735_603_200, "2024-12-31T00:00:00Z", 2, 366, 31),
            (-1, "1969-12-31T23:59:59Z", 3, 365, 31),
            (-2_203_891_200, "1900-03-01T00:00:00Z", 4, 60, 31),
        ] {
            let civil = Civil::of_seconds(seconds);
            assert_eq!(rfc3339(seconds * 1000), text);
            assert_eq!(
                (civil.weekday, civil.year_day, civil.days_in_month()),
                (weekday, year_day, days),
                "{text}"
            );
        }
    }
}

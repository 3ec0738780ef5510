//! Days, months and years of instants, in UTC.

/// An instant in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year.
    pub year: i64,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Day of the week, Sunday is 0.
    pub weekday: u32,
    /// Day of the year, from 1.
    pub year_day: u32,
    /// Hour.
    pub hour: u32,
    /// Minute.
    pub minute: u32,
    /// Second.
    pub second: u32,
}

/// Days of the months before each month.
const DAYS_BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
/// Seconds beyond which instants are taken for the last that is known: years with 12 digits.
const SECONDS_MAX: i64 = 1 << 60;

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

impl Civil {
    /// The instant so many seconds after 1970.
    pub fn of_seconds(seconds: i64) -> Self {
        let seconds = seconds.clamp(-SECONDS_MAX, SECONDS_MAX);
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        // Eras of 400 years that begin in March, so that leap days end years.
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

    /// Days of its month.
    pub fn days_in_month(&self) -> u32 {
        match self.month {
            2 => 28 + u32::from(is_leap(self.year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// Milliseconds as an instant of RFC 3339, to the second.
pub fn rfc3339(ms: i64) -> String {
    // Whole seconds towards zero.
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of_seconds(ms / 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right_at_its_corners() {
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

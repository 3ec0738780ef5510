//! The values and times on the axes.

use crate::zone::Zone;

/// The values of the vertical axis: the bottom, the top, and the distance of two labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ValueAxis {
    pub(crate) bottom: f64,
    pub(crate) top: f64,
    pub(crate) step: f64,
}

impl ValueAxis {
    /// An axis for these values with about the given number of steps; given bounds are kept.
    pub(crate) fn over(
        (least, most): (f64, f64),
        given: (Option<f64>, Option<f64>),
        steps: usize,
        is_binary: bool,
    ) -> Self {
        let (mut least, mut most) = (given.0.unwrap_or(least), given.1.unwrap_or(most));
        if least > most {
            (least, most) = (most, least);
        }
        if most - least <= f64::EPSILON * most.abs().max(1.0) {
            let room = if most == 0.0 { 1.0 } else { most.abs() * 0.1 };
            (least, most) = (given.0.unwrap_or(least - room), given.1.unwrap_or(most + room));
            if least >= most {
                most = least + room;
            }
        }
        let step = step_of((most / 2.0 - least / 2.0) / steps.max(1) as f64 * 2.0, is_binary);
        let bottom = given.0.unwrap_or((least / step).floor() * step);
        let top = given.1.unwrap_or((most / step).ceil() * step);
        let is_sound = bottom.is_finite() && top.is_finite() && top > bottom && step > 0.0;
        if is_sound { Self { bottom, top, step } } else { Self { bottom: 0.0, top: 1.0, step: 0.2 } }
    }

    /// The labelled values, from the bottom to the top.
    pub(crate) fn values(&self) -> impl Iterator<Item = f64> {
        let first = (self.bottom / self.step - 1e-9).ceil();
        let count = ((self.top / self.step + 1e-9).floor() - first).clamp(0.0, 100.0) as usize;
        let step = self.step;
        (0..=count).map(move |place| (first + place as f64) * step)
    }

    /// The position of a value, from 0 at the bottom to 1 at the top; clamped beyond them.
    pub(crate) fn share(&self, value: f64) -> f64 {
        // Halved, so that no difference overflows to infinity.
        let bottom = self.bottom / 2.0;
        ((value / 2.0 - bottom) / (self.top / 2.0 - bottom)).clamp(0.0, 1.0)
    }
}

/// The smallest round number that is not below `least`.
fn step_of(least: f64, is_binary: bool) -> f64 {
    let base: f64 = if is_binary && least >= 1.0 { 2.0 } else { 10.0 };
    let power = base.powf(least.max(f64::MIN_POSITIVE).log(base).floor());
    let rounds: &[f64] = if base == 2.0 { &[1.0, 2.0] } else { &[1.0, 2.0, 2.5, 5.0, 10.0] };
    let found = rounds.iter().map(|round| round * power).find(|step| *step >= least * 0.999_999);
    found.unwrap_or(power * base)
}

const BINARY: [(f64, &str); 5] = [
    (1_125_899_906_842_624.0, " Pi"),
    (1_099_511_627_776.0, " Ti"),
    (1_073_741_824.0, " Gi"),
    (1_048_576.0, " Mi"),
    (1_024.0, " Ki"),
];
const SI: [(f64, &str); 5] = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];

/// The label of a value on an axis with this step.
pub(crate) fn value_label(value: f64, step: f64, has_units: bool, is_binary: bool) -> String {
    let units: &[(f64, &str)] = match (has_units, is_binary) {
        (false, _) => &[],
        (true, true) => &BINARY,
        (true, false) => &SI,
    };
    let (size, unit) = units.iter().find(|(size, _)| value.abs() >= *size).copied().unwrap_or((1.0, ""));
    let scaled = step / size;
    let digits = (0..=6).find(|digits| {
        let tens = scaled * 10f64.powi(*digits);
        (tens - tens.round()).abs() < 1e-6 * tens.max(1.0) && tens.round() >= 1.0
    });
    let number = value / size;
    match digits {
        Some(digits) if number.abs() < 1e16 => format!("{number:.*}{unit}", digits as usize),
        _ => format!("{number:.2e}{unit}"),
    }
}

/// Possible steps of time labels, in seconds.
const STEPS: [i64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800,
    604_800, 2_592_000, 31_536_000,
];

/// The labelled times on the horizontal axis, at most `most` of them.
pub(crate) fn times((from, until): (i64, i64), most: usize, zone: &Zone) -> Vec<(i64, String)> {
    let length = until.saturating_sub(from).max(1);
    let wanted = length / most.max(1) as i64;
    let last = STEPS[STEPS.len() - 1];
    let step = STEPS.into_iter().find(|step| *step > wanted).unwrap_or(wanted / last * last + last);
    let pattern = match step {
        ..60 => "%H:%M:%S",
        60..86_400 if length <= 86_400 => "%H:%M",
        60..86_400 => "%a %H:%M",
        86_400..2_592_000 => "%m/%d",
        _ => "%Y/%m",
    };
    let offset = zone.moment(from).offset;
    let first = (from.saturating_add(offset)).div_euclid(step).saturating_add(1).saturating_mul(step);
    let mut found = Vec::new();
    let mut time = first.saturating_sub(offset);
    while time <= until && found.len() <= most {
        let label =
            zone.moment(time).civil().map_or_else(String::new, |time| time.strftime(pattern).to_string());
        found.push((time, label));
        time = time.saturating_add(step);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_values_and_covers_all() {
        for (ends, given, expected) in [
            ((0.0, 9.7), (None, None), "0 2 4 6 8 10"),
            ((5.0, 5.0), (None, None), "4.4 4.6 4.8 5.0 5.2 5.4 5.6"),
            ((0.0, 0.0), (None, None), "-1.0 -0.5 0.0 0.5 1.0"),
            ((1.0, 2.0), (Some(0.0), Some(4.0)), "0 1 2 3 4"),
        ] {
            let axis = ValueAxis::over(ends, given, 5, false);
            let labels = axis.values().map(|value| value_label(value, axis.step, false, false));
            assert_eq!(labels.collect::<Vec<_>>().join(" "), expected, "{ends:?}");
        }
        for ends in [(-1e308, 1e308), (f64::MIN_POSITIVE, 1e-300), (1e300, 1e300), (0.0, 5e-324)] {
            for is_binary in [false, true] {
                let axis = ValueAxis::over(ends, (None, None), 5, is_binary);
                assert!(axis.top > axis.bottom && axis.values().count() <= 102, "{ends:?} {axis:?}");
                assert!((0.0..=1.0).contains(&axis.share(ends.1)));
            }
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(value_label(1500.0, 500.0, true, false), "1.5 k");
        assert_eq!(value_label(1500.0, 500.0, false, false), "1500");
        assert_eq!(value_label(2048.0, 1024.0, true, true), "2 Ki");
        assert_eq!(value_label(0.25, 0.25, true, false), "0.25");
        assert_eq!(value_label(1e-12, 1e-12, true, false), "1.00e-12");
        let zone = Zone::utc();
        let shown = |from, until| {
            let times = times((from, until), 4, &zone);
            times.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(0, 3600), "00:30 01:00");
        assert_eq!(shown(0, 30), "00:00:10 00:00:20 00:00:30");
        assert!(times((i64::MIN, i64::MAX), 5, &zone).len() <= 6);
        assert!(times((0, 1), 0, &zone).len() <= 1);
    }
}

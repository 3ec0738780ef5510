//! A query with its parameters, and the checks that need no data.

use sandur_model::go_text::{format_go_duration, format_prometheus_duration};
use sandur_model::{Limits, TimeRange};
use sandur_query::{Direction, Error};

/// The most points of one series of an answer.
const POINTS_MAX: i64 = 11_000;

const NOT_INSTANT: &str = "log queries are not supported as an instant query type, \
    please change your query to a range query type";

/// Range lengths are nanoseconds in 64 bits.
const TOO_LONG: &str =
    "the query time range exceeds the limit of 292 years for a metric query; move its start or its end";

/// A query and its parameters.
#[derive(Clone, Debug)]
pub struct Request {
    /// The query text.
    pub query: String,
    /// At one instant, or over a range.
    pub kind: Kind,
    /// The most rows in the answer of a log query.
    pub limit: u32,
    /// Which rows of a log query rank first: the newest or the oldest.
    pub direction: Direction,
    /// The least time between two rows in the answer of a log query, in nanoseconds; 0 is no limit.
    pub interval_ns: i64,
}

/// The times of a query, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At one instant; metric queries only.
    Instant {
        /// The instant.
        time_ns: i64,
    },
    /// `[start, end)` for log queries; the steps from `start` to `end`, both inclusive, for metric queries.
    Range {
        /// The start.
        start_ns: i64,
        /// The end.
        end_ns: i64,
        /// The distance of two steps; metric queries only.
        step_ns: i64,
    },
}

/// The instants at which a metric query is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The first step, in nanoseconds since the epoch.
    pub first_ns: i64,
    /// The upper bound of the steps, inclusive.
    pub last_ns: i64,
    /// The distance of two steps, in nanoseconds.
    pub step_ns: i64,
    /// Whether it is a single instant, whose answer is a vector.
    pub instant: bool,
}

impl Request {
    /// Rounds the end of a range down to a multiple of the step, so that the last step is complete. The start
    /// of a metric query is always rounded down ([`metric_steps`]). An invalid range stays unchanged.
    pub fn with_aligned_end(self) -> Self {
        let kind = match self.kind {
            Kind::Range { start_ns, end_ns, step_ns } if step_ns > 0 && start_ns <= end_ns => {
                let end_ns = end_ns.saturating_sub(end_ns.rem_euclid(step_ns));
                Kind::Range { start_ns: start_ns.min(end_ns), end_ns, step_ns }
            }
            other => other,
        };
        Self { kind, ..self }
    }

    /// The request without the time before `earliest_ns`; `None` if nothing remains.
    pub fn since(&self, earliest_ns: i64) -> Option<Self> {
        let kind = match self.kind {
            Kind::Instant { time_ns } if time_ns < earliest_ns => return None,
            Kind::Range { end_ns, .. } if end_ns < earliest_ns => return None,
            Kind::Range { start_ns, end_ns, step_ns } => {
                Kind::Range { start_ns: start_ns.max(earliest_ns), end_ns, step_ns }
            }
            instant => instant,
        };
        Some(Self { kind, ..self.clone() })
    }
}

impl Steps {
    /// The number of steps.
    pub fn count(&self) -> usize {
        if self.last_ns < self.first_ns {
            0
        } else {
            (self.last_ns.saturating_sub(self.first_ns) / self.step_ns) as usize + 1
        }
    }

    /// The time of a step, in milliseconds since the epoch.
    pub fn timestamp_ms(&self, step: usize) -> i64 {
        self.first_ns.saturating_add(self.step_ns.saturating_mul(step as i64)).div_euclid(1_000_000)
    }
}

/// The time range of a log query.
pub fn log_range(request: &Request, limits: &Limits) -> Result<TimeRange, Error> {
    let Kind::Range { start_ns, end_ns, .. } = request.kind else {
        return Err(Error::Invalid(NOT_INSTANT.to_owned()));
    };
    check_order(start_ns, end_ns)?;
    check_length(start_ns, end_ns, limits)?;
    let most = limits.max_entries_limit_per_query;
    if most > 0 && u64::from(request.limit) > most {
        return Err(Error::Limit(format!(
            "max entries limit per query exceeded, limit > max_entries_limit_per_query ({} > {most})",
            request.limit
        )));
    }
    Ok(TimeRange::new(start_ns, end_ns))
}

/// The steps of a metric query. As in Loki's frontend, the start of a range is rounded down and the end
/// rounded up to a multiple of the step, so that a panel requests the same steps each time.
pub fn metric_steps(request: &Request, limits: &Limits) -> Result<Steps, Error> {
    let steps = exact_steps(request, limits)?;
    if steps.instant {
        return Ok(steps);
    }
    let over = steps.last_ns.rem_euclid(steps.step_ns);
    let last_ns = if over == 0 { steps.last_ns } else { steps.last_ns.saturating_add(steps.step_ns - over) };
    let first_ns = steps.first_ns.saturating_sub(steps.first_ns.rem_euclid(steps.step_ns));
    Ok(Steps { first_ns, last_ns, ..steps })
}

/// The steps of a metric query, from its exact start on.
pub fn exact_steps(request: &Request, limits: &Limits) -> Result<Steps, Error> {
    match request.kind {
        Kind::Instant { time_ns } => {
            Ok(Steps { first_ns: time_ns, last_ns: time_ns, step_ns: 1, instant: true })
        }
        Kind::Range { start_ns, end_ns, step_ns } => {
            check_order(start_ns, end_ns)?;
            if step_ns <= 0 {
                return Err(Error::Invalid(
                    "zero or negative query resolution step widths are not accepted. Try a positive integer"
                        .to_owned(),
                ));
            }
            check_length(start_ns, end_ns, limits)?;
            let length_ns = end_ns.checked_sub(start_ns).ok_or_else(|| Error::Limit(TOO_LONG.to_owned()))?;
            if length_ns / step_ns > POINTS_MAX {
                return Err(Error::Invalid(
                    "exceeded maximum resolution of 11,000 points per time series. \
                     Try increasing the value of the step parameter"
                        .to_owned(),
                ));
            }
            Ok(Steps { first_ns: start_ns, last_ns: end_ns, step_ns, instant: false })
        }
    }
}

fn check_order(start_ns: i64, end_ns: i64) -> Result<(), Error> {
    if end_ns < start_ns {
        return Err(Error::Invalid("end timestamp must not be before or equal to start time".to_owned()));
    }
    Ok(())
}

/// Fails if the time range is longer than a query's may be.
pub fn check_length(start_ns: i64, end_ns: i64, limits: &Limits) -> Result<(), Error> {
    let (length, most) = (end_ns.saturating_sub(start_ns), limits.max_query_length);
    if most > 0 && length > most {
        return Err(Error::Limit(format!(
            "the query time range exceeds the limit (query length: {}, limit: {})",
            format_go_duration(length),
            format_prometheus_duration(most)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn request(kind: Kind, limit: u32) -> Request {
        Request { query: String::new(), kind, limit, direction: Direction::Backward, interval_ns: 0 }
    }

    fn range(start: i64, end: i64, step: i64) -> Request {
        request(Kind::Range { start_ns: start * S, end_ns: end * S, step_ns: step * S }, 10)
    }

    #[test]
    fn steps_are_aligned_outwards() {
        let steps = metric_steps(&range(65, 125, 30), &Limits::default()).unwrap();
        assert_eq!((steps.first_ns, steps.last_ns, steps.count()), (60 * S, 150 * S, 4));
        assert_eq!(steps.timestamp_ms(1), 90_000);
        let exact = metric_steps(&range(60, 120, 30), &Limits::default()).unwrap();
        assert_eq!((exact.first_ns, exact.last_ns, exact.count()), (60 * S, 120 * S, 3));
        let before_epoch = metric_steps(&range(-65, -5, 30), &Limits::default()).unwrap();
        assert_eq!((before_epoch.first_ns, before_epoch.last_ns), (-90 * S, 0));
        let instant = metric_steps(&request(Kind::Instant { time_ns: 7 }, 1), &Limits::default()).unwrap();
        assert_eq!((instant.count(), instant.first_ns), (1, 7));
    }

    #[test]
    fn an_aligned_end_is_rounded_down() {
        let limits = Limits::default();
        for (start, end, step, first, last) in
            [(61, 125, 30, 60, 120), (60, 120, 30, 60, 120), (61, 62, 30, 60, 60), (-61, -1, 30, -90, -30)]
        {
            let request = range(start, end, step).with_aligned_end();
            let steps = metric_steps(&request, &limits).unwrap();
            assert_eq!((steps.first_ns, steps.last_ns), (first * S, last * S), "{start} to {end}");
        }
        let longest = range(7, 7 + 721 * 3_600, 3_600);
        metric_steps(&longest, &limits).unwrap();
        metric_steps(&longest.with_aligned_end(), &limits).unwrap();
        for invalid in [range(10, 0, 1), range(0, 10, 0)] {
            let message = metric_steps(&invalid, &limits).unwrap_err().to_string();
            assert_eq!(metric_steps(&invalid.with_aligned_end(), &limits).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn errors_have_lokis_texts() {
        let limits = Limits::default();
        let message = |result: Result<Steps, Error>| result.unwrap_err().to_string();
        assert!(
            message(metric_steps(&range(0, 11_001, 1), &limits))
                .starts_with("exceeded maximum resolution of 11,000")
        );
        metric_steps(&range(0, 11_000, 1), &limits).unwrap();
        assert!(message(metric_steps(&range(0, 10, 0), &limits)).starts_with("zero or negative"));
        assert!(
            message(metric_steps(&range(10, 0, 1), &limits)).starts_with("end timestamp must not be before")
        );
        let ends = request(Kind::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: i64::MAX }, 10);
        let unlimited = Limits { max_query_length: 0, ..Limits::default() };
        let long = message(metric_steps(&ends, &unlimited));
        assert!(long.starts_with("the query time range exceeds the limit of 292 years"), "{long}");
        assert!(message(metric_steps(&ends, &limits)).contains("limit: 30d1h"));
        assert_eq!(log_range(&ends, &unlimited).unwrap(), TimeRange::ALL);
        let long = message(metric_steps(&range(0, 40 * 86_400, 3600), &limits));
        assert_eq!(long, "the query time range exceeds the limit (query length: 960h0m0s, limit: 30d1h)");
        let instant = log_range(&request(Kind::Instant { time_ns: 0 }, 1), &limits).unwrap_err().to_string();
        assert!(instant.starts_with("log queries are not supported as an instant query type"));
        let many = request(Kind::Range { start_ns: 0, end_ns: 1, step_ns: 0 }, 5001);
        let many = log_range(&many, &limits).unwrap_err().to_string();
        assert_eq!(
            many,
            "max entries limit per query exceeded, limit > max_entries_limit_per_query (5001 > 5000)"
        );
    }
}

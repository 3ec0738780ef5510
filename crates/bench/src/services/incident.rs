//! The incidents of the shop and their times.
//!
//! Time is divided into periods of [`PERIOD_S`]. Each has at most one incident, which is chosen by seed
//! and period.

use super::random::Random;

/// Seconds of a period.
const PERIOD_S: i64 = 480;

/// A kind of incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// The bank answers late or not at all: slow and failing payments.
    BankTimeouts,
    /// The database waits for a lock, and all its users are slow.
    DatabaseLock,
    /// A service is killed because of its memory and restarts.
    OutOfMemory,
    /// An attacker guesses passwords.
    PasswordGuessing,
}

/// Returns the incident of a second, if there is one.
pub(crate) fn at(seed: u64, second: i64) -> Option<Incident> {
    let period = second.div_euclid(PERIOD_S);
    let mut dice = Random::of(&[seed, 0x1C, period as u64]);
    if !dice.percent(60.0) {
        return None;
    }
    let kinds =
        [Incident::BankTimeouts, Incident::DatabaseLock, Incident::OutOfMemory, Incident::PasswordGuessing];
    let kind = *dice.pick(&kinds);
    let start = dice.between(30, 300) as i64;
    let length = dice.between(45, 150) as i64;
    let within = second.rem_euclid(PERIOD_S) - start;
    (0..length).contains(&within).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_rare_last_a_while_and_have_every_kind() {
        let day: Vec<Option<Incident>> = (0..86_400).map(|second| at(7, second)).collect();
        let troubled = day.iter().filter(|i| i.is_some()).count();
        assert!((5_000..20_000).contains(&troubled), "{troubled}");
        let changes = day.windows(2).filter(|w| w[0] != w[1]).count();
        assert!((100..300).contains(&changes), "{changes}");
        for kind in [
            Incident::BankTimeouts,
            Incident::DatabaseLock,
            Incident::OutOfMemory,
            Incident::PasswordGuessing,
        ] {
            assert!(day.contains(&Some(kind)), "{kind:?}");
        }
    }
}

//! Draws evaluations, restarts and changes of the file.

use crate::case::Event;
use crate::random::Random;

/// The evaluations of a process that precede a change of its file. Alerts were restored after the second one.
const BEFORE_CHANGE: i64 = 3;

/// The events of a case with `steps` evaluations.
pub fn draw(
    random: &mut Random,
    versions: usize,
    (first_ms, interval_s): (i64, i64),
    steps: i64,
) -> Vec<Event> {
    let mut version = 0;
    let mut events = vec![Event::Restart { version }];
    let (mut at_ms, mut since_start) = (first_ms, 0);
    let has_restarts = random.chance(75);
    for _ in 0..steps {
        events.push(Event::Evaluate { at_ms });
        since_start += 1;
        at_ms += interval_s * 1_000;
        if random.chance(2) {
            at_ms += interval_s * 1_000 * random.between(1, 4);
        }
        if since_start >= BEFORE_CHANGE && version + 1 < versions && random.chance(6) {
            version += 1;
            events.push(Event::Reload { version });
        }
        if has_restarts && random.chance(4) {
            let outage_s = match random.below(4) {
                0 => 0,
                1 => random.between(0, 300),
                2 => random.between(0, 1_800),
                _ => random.between(0, 7_200),
            };
            // A group keeps its times over a restart.
            at_ms += outage_s / interval_s * interval_s * 1_000;
            since_start = 0;
            events.push(Event::Restart { version });
        }
    }
    events
}

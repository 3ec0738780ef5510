//! Replays over data in memory.

use sandur_model::Labels;
use sandur_runtime::Shutdown;

use super::*;
use crate::data::Number;
use crate::file::{ReadOptions, read};
use crate::memory_data::MemoryData;

const RULES: &str = "groups:
- name: g
  interval: 60s
  rules:
  - {record: twice, expr: 2 * load}
  - {alert: High, expr: twice > 10, for: 2m, labels: {severity: page}}
- name: other
  interval: 90s
  rules:
  - {alert: Absent, expr: absent(nothing)}
";

/// A start on a whole hour, so that the test does not depend on the phases of the groups.
const START: i64 = 1_795_176_000;

fn world() -> (Env, Arc<MemoryData>, Vec<GroupSpec>) {
    let env = Env::simulated(1, START * 1_000_000_000);
    let data = Arc::new(MemoryData::new(env.clone()));
    let labels = Labels::from_pairs([("__name__", "load"), ("host", "a")]);
    for n in 0..240 {
        // High from minute 20 on, for 15 minutes.
        let value = if (80..140).contains(&n) { 9.0 } else { 1.0 };
        data.add(&labels, (START + n * 15) * 1_000, Number::Float(value));
    }
    (env, data, read(RULES, &"f".into(), ReadOptions::default()).unwrap())
}

fn minutes(minutes: i64) -> Instant {
    Instant::of_seconds(START + minutes * 60)
}

fn replay(
    world: &(Env, Arc<MemoryData>, Vec<GroupSpec>),
    times: (Instant, Instant),
) -> Result<Replay, ReplayError> {
    let (env, data, specs) = world;
    let data: Arc<dyn Data> = Arc::<MemoryData>::clone(data);
    Replay::new(env, specs.clone(), data, times, (Duration::from_secs(10), 100))
}

#[tokio::test(start_paused = true)]
async fn alerts_fire_and_end_at_the_times_of_the_schedule() {
    let world = world();
    let mut replay = replay(&world, (minutes(5), minutes(60))).unwrap();
    let (stop, mut seen, mut done) = (Shutdown::default(), Vec::new(), 0);
    let tally = replay
        .run(
            &stop.signal(),
            |one| match one.what {
                Happened::Fired(alert) => seen.push((true, one.at, alert.labels.to_string())),
                Happened::Resolved(alert) => seen.push((false, one.at, alert.labels.to_string())),
                Happened::Failed(error) => panic!("{error}"),
            },
            |evaluations| done = evaluations,
        )
        .await;
    assert_eq!((done, tally.evaluations), (replay.evaluations(), replay.evaluations()));
    assert_eq!((tally.failed, tally.fired, tally.firing), (0, 2, 1), "{seen:?}");
    assert!(seen.is_sorted_by_key(|(_, at, _)| *at), "{seen:?}");
    let high: Vec<_> = seen.iter().filter(|(.., labels)| labels.contains("High")).collect();
    let [(true, fired, labels), (false, ended, _)] = high[..] else { panic!("{seen:?}") };
    assert!(labels.contains("severity=\"page\"") && labels.contains("host=\"a\""), "{labels}");
    // The series is high at the evaluation after minute 20, and `for` takes two more.
    assert!((minutes(22)..=minutes(23)).contains(fired), "{fired:?}");
    assert!((minutes(35)..=minutes(36)).contains(ended), "{ended:?}");
    let schedule = Schedule::new("f", "g", Duration::from_secs(60));
    assert_eq!((schedule.before(*fired), schedule.before(*ended)), (*fired, *ended));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_once_and_changes_no_state() {
    let world = world();
    let mut replay = replay(&world, (minutes(0), minutes(10))).unwrap();
    let (stop, mut failures) = (Shutdown::default(), 0);
    world.1.fail(Some(crate::EvaluationError::Query("no".into())));
    let tally = replay
        .run(&stop.signal(), |one| failures += u32::from(matches!(one.what, Happened::Failed("no"))), |_| {})
        .await;
    assert_eq!((failures, tally.failed, tally.fired), (3, tally.evaluations, 0));
    assert!(tally.evaluations > 20);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_stopped_ends() {
    let world = world();
    let mut replay = replay(&world, (minutes(0), minutes(60))).unwrap();
    let stop = Shutdown::default();
    let tally = replay
        .run(
            &stop.signal(),
            |_| {},
            |done| {
                if done > 10 {
                    stop.trigger()
                }
            },
        )
        .await;
    assert!(tally.evaluations > 10 && tally.evaluations < replay.evaluations());
}

#[test]
fn ranges_without_evaluations_or_with_too_many_are_refused() {
    let world = world();
    let error = |times| replay(&world, times).err().unwrap();
    assert_eq!(error((minutes(5), minutes(5))), ReplayError::Nothing);
    assert_eq!(error((minutes(5), minutes(4))), ReplayError::Nothing);
    let far = Instant::of_seconds(START + 1_000_000_000);
    assert!(
        matches!(error((minutes(0), far)), ReplayError::TooMany { found } if found > RULE_EVALUATIONS_MAX)
    );
    let widest = error((Instant::of_ns(i64::MIN), Instant::of_ns(i64::MAX)));
    assert!(matches!(widest, ReplayError::TooMany { .. }), "{widest:?}");
}

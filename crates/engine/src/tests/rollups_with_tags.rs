//! Goal: series with tags are rolled like paths, however many series a name has, and whatever their tags
//! are: tags that are a prefix of others, `le`, or series of other origins between them. Method: as in
//! [`super::rollups`].

use sandur_model::{GRAPHITE_ARCHIVE, Labels, SampleBatch};

use super::rollups::{HOUR, World, all, joined, outcomes, path, push, push_valued, rolled, rows};
use super::samples::{Samples, blocks, metrics};
use super::*;

const TO_MINUTES: [(i64, i64); 3] = [(1, 1), (60, 4), (3_600, 1_000)];
/// They include each order of tags in which a rollup must find its position.
const TAGGED: [&str; 9] = [
    "a.used;dc=x",
    "a.used;dc=x;host=a",
    "a.used;dc=x;host=b",
    "a.used;dc=x;host=b;le=0.5",
    "a.used;dc=x;host=b;le=10",
    "a.used;Dc=x",
    "a.used;0=1;dc=x",
    "a.used;__a=1",
    "a.other;dc=x",
];

#[tokio::test(start_paused = true)]
async fn series_with_tags_become_rollups_and_are_rolled_again() {
    let world = World::new(71, &TO_MINUTES);
    let engine = world.open("one").await;
    let whisper = Labels::from_pairs(path(TAGGED[8]).iter().chain([(GRAPHITE_ARCHIVE, "60")]));
    let plain = Labels::from_pairs([("__name__", "a.used"), ("dc", "x"), ("host", "a")]);
    let mut kept = Vec::new();
    for labels in [&whisper, &plain, &path("b.used;dc=x")] {
        kept.push(push(&engine, labels, 2, 0..300).await);
    }
    // Two blocks; the second one corrects points of the first.
    let mut points: Vec<(Labels, Samples)> = Vec::new();
    for labels in TAGGED.map(path).into_iter().chain([path("a.used")]) {
        points.push((labels.clone(), push(&engine, &labels, 2, 0..1_800).await));
    }
    engine.flush().await.unwrap();
    for (labels, of) in &mut points {
        let more = push_valued(&engine, labels, 2, 1_500..3_600, |n| (n % 7) as f64).await;
        *of = joined([std::mem::take(of), more]);
    }
    engine.flush().await.unwrap();
    world.settle().await;
    let all_rolled = |step| joined(points.iter().map(|(labels, of)| rolled(labels, of, step)));
    let minutes = joined(kept.clone().into_iter().chain([all_rolled(60)]));
    assert_eq!(all(&engine).await, minutes);
    assert_eq!(rows(&engine)[0], points.len() as u64 * 3_600);
    // Late points of rolled steps are in a head, then a block, then a merge, and stay next to the rollup.
    for name in [TAGGED[1], TAGGED[4]] {
        kept.push(push_valued(&engine, &path(name), 2, 60..660, |_| 7.0).await);
    }
    let with_late = joined(kept.clone().into_iter().chain([all_rolled(60)]));
    assert_eq!(all(&engine).await, with_late);
    engine.flush().await.unwrap();
    assert_eq!(all(&engine).await, with_late);
    world.env.sleep(HOUR * 3).await;
    assert_eq!((all(&engine).await, blocks(&engine, &metrics())), (with_late, 1));
    engine.shutdown().await.unwrap();
    world.env.sleep(HOUR * 24 * 5).await;
    let later = world.open("later").await;
    world.settle().await;
    assert_eq!(all(&later).await, joined(kept.into_iter().chain([all_rolled(3_600)])));
    assert_eq!((later.metrics().rollup_failures.get(), outcomes(&later)[0]), (0, 1));
}

/// A name may have any number of series; only one of them is in memory at a time.
#[tokio::test(start_paused = true)]
async fn the_memory_of_a_merge_is_enough_for_a_name_with_many_series() {
    let world = World::new(72, &[(1, 1), (60, 1_000)]);
    let mut options = world.options();
    options.maintenance.compaction_budget = MemoryBudget::root("compaction", 3 << 20);
    let engine = world.open_with("one", options).await;
    let first_ms = (START_NS - 2 * sandur_model::DAY_NS) / 1_000_000;
    let (mut points, mut rollups) = (0, Vec::new());
    for part in 0..10 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in 0..400 {
            let labels = path(&format!("a.used;host={};part={part}", n * 7_919 % 400));
            let of = |k: i64| (first_ms + k * 1_000, (k % 13) as f64);
            batch.push(Arc::new(labels.clone()), (0..300).map(of));
            let of = (0..300).map(of).map(|(time, value)| (time, value.to_bits())).collect();
            rollups.push(rolled(&labels, &Samples::from([(labels.to_string(), of)]), 60));
            points += 300;
        }
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
    }
    world.env.sleep(HOUR * 3).await;
    assert_eq!((rows(&engine), outcomes(&engine)[2]), ([points, points / 60 * 6], 0));
    assert!(all(&engine).await == joined(rollups));
}

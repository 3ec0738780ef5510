//! Goal: files are cut into the entries that a person would cut. Method: generated files whose entries are
//! known, and single cases.

use std::collections::BTreeMap;

use super::corpus::{Entry, File, Random, file};
use super::*;
use crate::push::assembler::Assembler;
use crate::push::batch::Batch;
use crate::push::reading::Reading;
use crate::push::start::Start;

/// 2026-01-15T00:00:00Z.
const NOW_NS: i64 = 1_768_435_200_000_000_000;

fn texts(batches: &[Batch]) -> Vec<String> {
    let text = |b: &Batch, n| String::from_utf8_lossy(b.text(n)).into_owned();
    batches.iter().flat_map(|b| (0..b.lines.len()).map(move |n| text(b, n))).collect()
}

fn cut_by(reading: Reading, text: &str) -> Vec<String> {
    let mut assembler = Assembler::new(sandur_model::Labels::default(), reading, Start::default());
    assembler.feed(text.as_bytes(), NOW_NS);
    assembler.finish(NOW_NS);
    texts(&std::iter::from_fn(|| assembler.flush()).collect::<Vec<_>>())
}

fn cut(text: &str) -> Vec<String> {
    cut_by(Reading::joining(NOW_NS), text)
}

/// The entries of a text that is fed in pieces, while complete entries are taken in between.
fn cut_in_pieces(text: &str, random: &mut Random) -> Vec<String> {
    let mut assembler =
        Assembler::new(sandur_model::Labels::default(), Reading::joining(NOW_NS), Start::default());
    let mut batches = Vec::new();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let piece = (1 + random.below(400) as usize).min(rest.len());
        assembler.feed(&rest[..piece], NOW_NS);
        rest = &rest[piece..];
        if random.below(3) == 0 {
            batches.extend(assembler.flush());
        }
    }
    assembler.finish(NOW_NS);
    batches.extend(std::iter::from_fn(|| assembler.flush()));
    assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!(batches.last().unwrap().end, text.len() as u64);
    texts(&batches)
}

#[test]
fn a_thousand_files_are_cut_as_a_person_would_cut_them() {
    let (mut right, mut all, mut unknowable) = (0usize, 0usize, 0usize);
    let mut wrong: BTreeMap<(&str, String), (usize, u64)> = BTreeMap::new();
    for seed in 0..1_000 {
        let File { writers, entries } = file(seed);
        let text = entries.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>().join("\n") + "\n";
        let found = cut_in_pieces(&text, &mut Random::new(seed));
        if seed % 10 == 0 {
            assert_eq!(found, cut(&text), "seed {seed}: pieces change nothing");
        }
        // An entry is right if it begins and ends at its places.
        let places = |all: &mut dyn Iterator<Item = &str>| {
            let mut at = 0;
            all.map(|entry| {
                let lines = entry.lines().filter(|line| !line.is_empty()).count();
                at += lines;
                (at - lines, at)
            })
            .collect::<Vec<_>>()
        };
        let expected = places(&mut entries.iter().map(|entry| entry.text.as_str()));
        let found: std::collections::HashSet<_> =
            places(&mut found.iter().map(String::as_str)).into_iter().collect();
        for (place, Entry { kind, is_unknowable, .. }) in expected.iter().zip(&entries) {
            if *is_unknowable {
                unknowable += 1;
                continue;
            }
            all += 1;
            if found.contains(place) {
                right += 1;
            } else {
                let (count, first) = wrong.entry((kind, format!("{writers:?}"))).or_insert((0, seed));
                (*count, *first) = (*count + 1, (*first).min(seed));
            }
        }
    }
    let mut shown: Vec<_> = wrong.iter().collect();
    shown.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for ((kind, writers), (count, seed)) in shown {
        println!("{count} of kind {kind} by {writers}, first in file {seed}");
    }
    let share = right as f64 / all as f64;
    println!("{right} of {all} entries, {:.2} %; {unknowable} others cannot be known", share * 100.0);
    assert!(share >= 0.99, "{share}");
}

#[test]
fn lines_that_only_look_like_continuations_begin_entries() {
    for text in [
        "started\nat least 3 retries left\nfor key 4\nand then\n",
        "INFO one\nWARN two\nerror: three\n[info] four\n<6>five\n",
        "SELECT 1;\nnot a part\n",
        "{\"a\":1}\n{\"a\":2}\n[]\n",
        "panic: no\nall is well\n",
        "2026-01-14 06:01:43 a\n2026-01-14 06:01:43 b\n",
        "note: this is one\nfrom here\n#hash\n",
        "update of a table\nor not\n",
    ] {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(cut(text), lines, "{text}");
    }
}

/// The text of an entry that is passed on has the first and the last of its carried lines only.
#[test]
fn an_uncaught_value_of_node_in_carried_lines_ends_with_that_value() {
    let lines = ["/app/index.js:3", "throw 'x'", "^", "x", "listening", "and then", "done"];
    let carried: String =
        lines.iter().map(|line| format!("2026-01-14T06:01:43.1Z stderr F {line}\n")).collect();
    let found = cut(&carried);
    let counts: Vec<usize> = found.iter().map(|entry| entry.lines().count()).collect();
    assert_eq!(counts, [4, 1, 1, 1], "{found:?}");
    assert_eq!(
        cut(&(lines.join("\n") + "\n")),
        ["/app/index.js:3\nthrow 'x'\n^\nx", "listening", "and then", "done"]
    );
}

#[test]
fn thirty_entries_with_other_lines_end_the_highest_trust() {
    let dated = |n: u32| format!("2026-01-14 06:01:{:02} line {n}\n", n % 60);
    let text: String = (0..60).map(dated).chain((0..40).map(|n| dated(n) + "of another program\n")).collect();
    let joined = cut(&text).iter().filter(|entry| entry.contains('\n')).count();
    assert_eq!(joined, 29);
}

#[test]
fn a_line_without_the_time_that_others_have_continues_unless_they_are_many() {
    let dated = |n: u32| format!("2026-01-14 06:01:{:02} line {n}", n % 60);
    let few: String =
        (0..100).map(|n| dated(n) + if n % 10 == 3 { "\nits second line\n" } else { "\n" }).collect();
    assert_eq!(cut(&few).len(), 100);
    let many: String = (0..100).map(|n| dated(n) + "\nof another program\n").collect();
    assert!(cut(&many).len() > 180, "after some lines it is known that they are no continuations");
}

#[test]
fn entries_have_a_maximum_of_lines_and_bytes() {
    let long = "start\n".to_owned() + &"  x\n".repeat(3 * ENTRY_LINES_MAX as usize);
    let found = cut(&long);
    assert!(found.iter().all(|entry| entry.lines().count() <= ENTRY_LINES_MAX as usize));
    assert_eq!(found.iter().map(|entry| entry.lines().count()).sum::<usize>(), long.lines().count());
    let wide = "start\n".to_owned() + &format!("  {}\n", "x".repeat(1_000)).repeat(1_000);
    let found = cut(&wide);
    assert!(found.iter().all(|entry| entry.len() <= ENTRY_BYTES_MAX));
    assert!(found.len() <= 1 + wide.len() / (ENTRY_BYTES_MAX - 2_000), "{}", found.len());
    let blanks = "start\n".to_owned() + &"\n".repeat(100_000) + "  end\n" + &"\n".repeat(100_000);
    assert_eq!(cut(&blanks), ["start", "  end"], "empty lines count");
}

#[test]
fn the_rule_of_the_user_replaces_the_kinds() {
    let start = regex::bytes::Regex::new("^BEGIN").unwrap();
    let by_rule = Reading { rule: Some(Rule::StartsAt(start)), ..Reading::joining(NOW_NS) };
    let text = "tail\nBEGIN a\n2026-01-14 06:01:43 b\n\nc\nBEGIN d\n";
    assert_eq!(cut_by(by_rule, text), ["tail", "BEGIN a\n2026-01-14 06:01:43 b\n\nc", "BEGIN d"]);
    let single = Reading { rule: None, ..Reading::joining(NOW_NS) };
    assert_eq!(cut_by(single, "a\n  b\n"), ["a", "  b"]);
}

#[test]
fn level_and_time_are_those_of_the_first_line_and_of_the_object() {
    let text = "2026-01-14 06:01:43 ERROR x\njava.io.IOException: 2026-01-14 07:00:00\n\tat a.B.c(D.java:1)\n\
                {\n  \"time\": \"2026-01-14T08:00:00Z\"\n}\n";
    let mut assembler =
        Assembler::new(sandur_model::Labels::default(), Reading::joining(NOW_NS), Start::default());
    assembler.feed(text.as_bytes(), NOW_NS);
    assembler.finish(NOW_NS);
    let batch = assembler.flush().unwrap();
    let times: Vec<i64> = batch.lines.iter().map(|line| line.timestamp_ns / 1_000_000_000).collect();
    assert_eq!(times, [1_768_370_503, 1_768_377_600]);
    assert_eq!((batch.undated, batch.joined(0..2)), (0, 4));
}

/// Any prefix of a file may have been sent before the push was killed.
#[test]
fn a_push_that_is_repeated_from_any_batch_cuts_the_same_entries() {
    for seed in 0..60 {
        let File { entries, .. } = file(seed);
        let text = entries.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>().join("\n") + "\n";
        let mut random = Random::new(seed);
        let mut assembler =
            Assembler::new(sandur_model::Labels::default(), Reading::joining(NOW_NS), Start::default());
        let (mut batches, mut rest) = (Vec::new(), text.as_bytes());
        while !rest.is_empty() {
            let piece = (1 + random.below(900) as usize).min(rest.len());
            assembler.feed(&rest[..piece], NOW_NS);
            rest = &rest[piece..];
            if random.below(9) == 0 {
                assembler.cut(); // a second of silence
            }
            batches.extend(std::iter::from_fn(|| assembler.flush()));
        }
        assembler.finish(NOW_NS);
        batches.extend(std::iter::from_fn(|| assembler.flush()));
        let whole = texts(&batches);
        for kept in 0..batches.len() {
            let before = kept.checked_sub(1).map(|n| &batches[n]);
            let planned = batches[kept..].iter().filter(|batch| batch.is_cut);
            let planned =
                planned.map(|batch| crate::push::start::Planned { until: batch.end, now_ns: batch.now_ns });
            let start = Start {
                offset: before.map_or(0, |batch| batch.end),
                dates: before.map_or_else(Default::default, |batch| batch.dates),
                learned: before.map_or_else(Default::default, |batch| batch.learned),
                planned: planned.collect(),
            };
            let at = start.offset as usize;
            let mut again = Assembler::new(sandur_model::Labels::default(), Reading::joining(NOW_NS), start);
            again.feed(&text.as_bytes()[at..], NOW_NS);
            again.finish(NOW_NS);
            let all: Vec<Batch> = std::iter::from_fn(|| again.flush()).collect();
            let expected = &whole[whole.len() - texts(&batches[kept..]).len()..];
            assert_eq!(texts(&all), expected, "seed {seed}, from batch {kept}");
        }
    }
}

#[test]
fn an_object_in_json_without_a_time_begins_an_entry() {
    let line = |n: u32| format!("{{\"time\":\"2026-01-14T06:01:4{n}Z\",\"level\":\"info\",\"msg\":\"m\"}}");
    let untimed = "{\"level\":\"error\",\"msg\":\"no time\"}".to_owned();
    let lines = [line(1), line(2), line(3), untimed.clone(), untimed, line(4)];
    assert_eq!(cut(&(lines.join("\n") + "\n")), lines);
}

#[test]
fn the_levels_of_dotnet_begin_entries() {
    let entries = [
        "info: Microsoft.Hosting.Lifetime[14]\n      Now listening on: http://localhost:5000",
        "fail: Microsoft.AspNetCore.Server.Kestrel[13]\n      Connection id \"0HN\"\n      \
         System.InvalidOperationException: boom\n         at Program.<Main>$(String[] args) in /P.cs:line 3",
        "crit: App[0]\n      gone",
        "dbug: App[0]\n      x",
    ];
    assert_eq!(cut(&(entries.join("\n") + "\n")), entries);
}

#[test]
fn a_panic_while_serving_http_is_one_entry() {
    let entries = [
        "2026/01/14 06:01:43 http: panic serving 10.0.0.1:51820: boom\ngoroutine 84 [running]:\n\
         net/http.(*conn).serve.func1()\n\t/usr/lib/go/src/net/http/server.go:1947 +0xbe\n\
         panic({0x6a2f80?, 0x7b5d10?})\n\t/usr/lib/go/src/runtime/panic.go:787 +0x132\n\
         main.handler({0x7b8b28, 0xc0001220e0}, 0xc000146000)\n\t/app/main.go:12 +0x2c\n\
         created by net/http.(*Server).Serve in goroutine 1\n\t/usr/net/http/server.go:9 +0x485",
        "2026/01/14 06:01:44 next",
    ];
    assert_eq!(cut(&(entries.join("\n") + "\n")), entries);
}

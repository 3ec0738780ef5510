//! Goal: whisper history is imported completely and only once, even if an import is interrupted;
//! unreadable files are reported, and a comparison finds differences.
//!
//! Method: the real binary against a real server, with files that this test writes with current
//! timestamps.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::process::{Random, Server, Setup, encode, now_ns, request};
use crate::retention::until;
use crate::rollups::assert_same;

const FILES: u32 = 12;
const FINE: u32 = 60;
const COARSE: u32 = 48;

/// One hour of minutes and two days of hours, ending at `now`.
fn whisper(now: u32, value: f64) -> Vec<u8> {
    let header = 16 + 2 * 12;
    let words = [1, 3600 * COARSE, 0.5f32.to_bits(), 2, header, 60, FINE, header + FINE * 12, 3600, COARSE];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for (step, count) in [(60, FINE), (3600, COARSE)] {
        let last = now - now % step;
        for n in 0..count {
            bytes.extend((last - (count - 1 - n) * step).to_be_bytes());
            bytes.extend((value + f64::from(n) / 7.0).to_be_bytes());
        }
    }
    bytes
}

/// How many points of such a file are stored: hours within the last hour of minutes are left out.
fn points(now: u32) -> u32 {
    let last = now - now % 60;
    let hours = (0..COARSE).map(|n| now - now % 3600 - n * 3600).filter(|hour| *hour <= last - 3600);
    FINE + hours.count() as u32
}

fn run(server: &Server, tree: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(["import", "whisper", "--addr", &format!("http://{}", server.address)]);
    command.arg(tree).args(arguments).output().unwrap()
}

fn outcome_of(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).replace(',', ""))
}

fn stored(server: &Server, now: u32) -> u32 {
    let query = encode(r#"sum(count_over_time({__name__=~".+"}[3d]))"#);
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={now}"));
    let count = answer["data"]["result"][0]["value"][1].as_str().map(|text| text.parse().unwrap());
    count.unwrap_or(0)
}

#[test]
fn history_is_stored_once_even_if_the_import_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, state) = (folder.path().join("whisper"), folder.path().join("state"));
    let now = (now_ns() / 1_000_000_000) as u32;
    for n in 0..FILES {
        let name = match n {
            0 => "_tagged/abc/def/cpu_DOT_load;host=a;dc=b.wsp".to_owned(),
            1 => "_tagged/abc/def/cpu_DOT_load;host=a.wsp".to_owned(),
            n => format!("servers/s{}/load{n}.wsp", n % 3),
        };
        fs::create_dir_all(tree.join(&name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), whisper(now, f64::from(n))).unwrap();
    }
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let (code, text) = outcome_of(&run(&server, &tree, &["--dry-run"]));
    let all = FILES * points(now);
    assert!(code == Some(0) && text.contains("sent nothing") && text.contains(&all.to_string()), "{text}");
    assert_eq!(stored(&server, now), 0);

    let resumed = ["--resume", state.to_str().unwrap()];
    let (code, text) = outcome_of(&run(&server, &tree, &resumed));
    assert!(code == Some(0) && text.contains("stored 12 files"), "{text}");
    assert_eq!(stored(&server, now), all);
    let (code, text) = outcome_of(&run(&server, &tree, &["--verify", "--window", "20", "--seed", "7"]));
    assert!(code == Some(0) && text.contains("24 archives of 12 files: 0 differ"), "{text}");

    let (lines, mut random) = (fs::read(&state).unwrap(), Random(19));
    for _ in 0..3 {
        fs::write(&state, &lines[..200 + random.below(lines.len() as u64 - 200) as usize]).unwrap();
        let (code, text) = outcome_of(&run(&server, &tree, &resumed));
        assert!(code == Some(0) && text.contains("stored before"), "{text}");
        assert_eq!(stored(&server, now), all);
    }

    fs::write(tree.join("servers/s2/load2.wsp"), whisper(now, 99.0)).unwrap();
    fs::write(tree.join("servers/cut.wsp"), &whisper(now, 1.0)[..500]).unwrap();
    let (code, text) = outcome_of(&run(&server, &tree, &["--verify"]));
    assert!(
        code == Some(1) && text.contains("load2.wsp: archive 3600") && text.contains("cut.wsp"),
        "{text}"
    );
    let (code, text) = outcome_of(&run(&server, &tree, &resumed));
    assert!(code == Some(1) && text.contains("cut.wsp") && text.contains("is truncated"), "{text}");
    assert!(text.contains("stored 1 files") && text.contains("11 files were stored before"), "{text}");

    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for arguments in [&[][..], &["--dry-run"], &["--verify"]] {
        let (code, text) = outcome_of(&run(&server, &empty, arguments));
        assert!(code == Some(1) && text.contains("LOCAL_DATA_DIR"), "{arguments:?}: {text}");
    }
    std::os::unix::fs::symlink(&tree, empty.join("elsewhere")).unwrap();
    let (code, text) = outcome_of(&run(&server, &empty, &[]));
    assert!(code == Some(1) && text.contains("a link to a folder"), "an omission is reported: {text}");
}

/// Such a file was once refused completely, although its other archives were intact.
#[test]
fn salvage_stores_the_intact_archives_of_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let tree = folder.path().join("damaged");
    fs::create_dir_all(&tree).unwrap();
    let now = (now_ns() / 1_000_000_000) as u32;
    let whole = whisper(now, 1.0);
    // The archive of hours is truncated.
    fs::write(tree.join("cut.wsp"), &whole[..whole.len() - 12]).unwrap();
    fs::write(tree.join("whole.wsp"), &whole).unwrap();
    let state = folder.path().join("salvaged.state");
    let resume = ["--resume", state.to_str().unwrap()];
    let (code, text) = outcome_of(&run(&server, &tree, &["--dry-run"]));
    assert!(code == Some(1) && text.contains("--salvage imports the intact parts"), "{text}");
    let (code, text) = outcome_of(&run(&server, &tree, &[&resume[..], &["--salvage"]].concat()));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cut.wsp: left out: archive 1 is damaged"), "{text}");
    assert!(text.contains("stored 2 files") && text.contains("1 of them are damaged"), "{text}");
    assert_eq!(stored(&server, now), points(now) + FINE);
    let (code, text) = outcome_of(&run(&server, &tree, &resume));
    assert!(
        code == Some(1) && text.contains("cut.wsp: archive 1 is damaged"),
        "it is not in the state file: {text}"
    );
    let (code, text) = outcome_of(&run(&server, &tree, &["--salvage", "--verify"]));
    assert!(code == Some(0) && text.contains(" 0 differ"), "{text}");
}

/// One hour of minutes that ends at `last`, and nothing else: it fits into one block.
fn minutes(last: u32, value: f64) -> Vec<u8> {
    one_archive(last, (60, FINE), value)
}

/// One archive of some steps, the last of which begins at `last`.
fn one_archive(last: u32, (step, count): (u32, u32), value: f64) -> Vec<u8> {
    let words = [1, step * count, 0.5f32.to_bits(), 1, 28, step, count];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for n in 0..count {
        bytes.extend((last - (count - 1 - n) * step).to_be_bytes());
        bytes.extend((value + f64::from(n) / 7.0).to_be_bytes());
    }
    bytes
}

fn wait_until_rolled(server: &Server) {
    let rewritten = "sandur_engine_rollup_blocks_total{outcome=\"rewritten\"}";
    until("the day is rolled", server, || {
        String::from_utf8(server.get("/metrics").1).unwrap().contains(rewritten)
    });
}

/// A comparison with points that became rollups uses the rollups.
#[test]
fn a_comparison_uses_rollups() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, schemas) = (folder.path().join("whisper"), folder.path().join("schemas.conf"));
    let names = ["a/n0.wsp", "a/n1.wsp", "_tagged/0ab/1cd/n2_DOT_load;dc=b;host=a.wsp"];
    names.iter().for_each(|name| fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap());
    fs::write(&schemas, "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n").unwrap();
    // The last minute of an hour three days ago: the points of the file are those of the whole hour.
    let last = (now_ns() / 1_000_000_000) as u32 / 3600 * 3600 - 3 * 86_400 - 60;
    for (n, name) in (0..).zip(names) {
        fs::write(tree.join(name), minutes(last, f64::from(n) - 1.5)).unwrap();
    }
    let store = folder.path().join("data").to_str().unwrap().to_owned();
    let schemas = format!("--graphite-schemas={}", schemas.display());
    let options = ["--compaction-interval=200ms", "--retention-change-delay=300ms", &schemas];
    let setup = || Setup::new(store.clone(), folder.path()).with(&options);
    let server = setup().start();
    let (code, text) = outcome_of(&run(&server, &tree, &[]));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = outcome_of(&run(&server, &tree, &["--verify"]));
    assert!(code == Some(0) && text.contains(": 0 differ") && !text.contains("rollups"), "{text}");
    assert_eq!(server.terminate(), Some(0));
    let server = setup().with(&["--graphite-rollups"]).start();
    wait_until_rolled(&server);
    let (code, text) = outcome_of(&run(&server, &tree, &["--verify"]));
    let expected = "rollups in place of 180 of the points";
    assert!(code == Some(0) && text.contains(": 0 differ") && text.contains(expected), "{text}");
    for name in &names[1..] {
        fs::write(tree.join(name), minutes(last, 7.0)).unwrap();
        let (code, text) = outcome_of(&run(&server, &tree, &["--verify"]));
        let differs = format!("{}: ", name.rsplit('/').next().unwrap());
        assert!(code == Some(1) && text.contains(&differs) && text.contains("a rollup of 3600 s"), "{text}");
    }
    assert_eq!(server.terminate(), Some(0));
}

/// Renders of all imported data, over both archives and in the time range of each.
fn renders(server: &Server, last: u32) -> Vec<serde_json::Value> {
    let targets = ["seriesByTag('name=cpu.load')", "sumSeries(seriesByTag('name=cpu.load'))", "a.*"];
    let times = [(last - 60 * 3_600, last + 7_200), (last - 7_200, last + 60)];
    let addresses = targets.iter().flat_map(|target| {
        times.map(|(from, until)| {
            format!("/render?target={}&format=json&from={from}&until={until}", encode(target))
        })
    });
    addresses.map(|address| server.get_json(&address)).collect()
}

/// Archives imported from whisper remain next to the rollups of their series, with and without tags, and
/// every value is returned once.
#[test]
fn renders_of_archives_do_not_change_when_other_points_become_rollups() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, schemas) = (folder.path().join("whisper"), folder.path().join("schemas.conf"));
    fs::write(&schemas, "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n").unwrap();
    let names = [
        "_tagged/0ab/1cd/cpu_DOT_load;dc=b.wsp",
        "_tagged/0ab/1cd/cpu_DOT_load;dc=b;host=a.wsp",
        "_tagged/0ab/1cd/cpu_DOT_load;dc=b;host=b.wsp",
        "a/b.wsp",
    ];
    // In the middle of an hour of a past day, so that one hour is split.
    let today = (now_ns() / 1_000_000_000) as u32 / 86_400 * 86_400;
    let last = today - 6 * 86_400 + 43_200 + 1_800;
    for (n, name) in (0..).zip(names) {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), whisper(last, f64::from(n))).unwrap();
    }
    // Enough points that the day is not a thin day, which would share a block with other days and stay
    // unchanged.
    let minutes_of_the_day = one_archive(today - 5 * 86_400 - 60, (60, 1_440), 1.0);
    for n in 0..200 {
        fs::write(tree.join(format!("full{n}.wsp")), &minutes_of_the_day).unwrap();
    }
    // Enough later slots that the day is a block that does not wait for a merge.
    fs::write(tree.join("later.wsp"), one_archive(today - 3_600, (3_600, 5 * 24), 1.0)).unwrap();
    let store = folder.path().join("data").to_str().unwrap().to_owned();
    let schemas = format!("--graphite-schemas={}", schemas.display());
    let options = ["--compaction-interval=200ms", "--retention-change-delay=300ms", &schemas];
    let setup = || Setup::new(store.clone(), folder.path()).with(&options);
    let server = setup().start();
    let (code, text) = outcome_of(&run(&server, &tree, &[]));
    assert_eq!(code, Some(0), "{text}");
    assert!(request(server.address, "POST", "/flush", &[], b"").unwrap().0 < 300);
    let before = renders(&server, last);
    assert_eq!(before[0].as_array().unwrap().len(), 3);
    let values = before[0][0]["datapoints"].as_array().unwrap().iter().filter(|point| !point[0].is_null());
    assert_eq!(values.count(), COARSE as usize);
    assert_eq!(server.terminate(), Some(0));
    let server = setup().with(&["--graphite-rollups"]).start();
    wait_until_rolled(&server);
    for (before, after) in before.iter().zip(renders(&server, last)) {
        assert_same(&before.to_string(), &after.to_string());
    }
    let (code, text) = outcome_of(&run(&server, &tree, &["--verify"]));
    assert!(code == Some(0) && text.contains(": 0 differ") && text.contains("rollups in place"), "{text}");
    assert_eq!(server.terminate(), Some(0));
}

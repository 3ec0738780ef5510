//! Damaged, missing, swapped and older objects of a stopped store: a start either fails and names the
//! remedy, or answers with the undamaged data. It never crashes, and a check never reports the store as
//! sound.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::raw;
use crate::victim::{Setup, Victim};

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "damaged-objects", about: "damaged, missing, swapped and older objects of a store", run };

const LINES: usize = 2_000;
const KINDS: &[&str] = &["delete", "truncate", "empty", "flip", "junk", "older"];

fn run(ground: &Ground<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let whole = folder.path().join("whole");
    fill(ground, &whole)?;
    for (n, object) in chosen(ground, &whole)?.iter().enumerate() {
        for kind in ground.pick(&KINDS[n % KINDS.len()..=n % KINDS.len()], KINDS) {
            let copy = folder.path().join("copy");
            copy_tree(&whole, &copy)?;
            let what = format!("{kind} {}", object.display());
            damage(&copy.join(object), kind, ground.seed)?;
            try_it(ground, &copy, &what)?;
            fs::remove_dir_all(&copy)?;
        }
    }
    Ok(())
}

/// Fills a store in several runs: blocks, WAL files, a catalog with some entries.
fn fill(ground: &Ground<'_>, store: &Path) -> Result<()> {
    for round in 0..4 {
        let server = ground.setup.serve_store(ground.env, store)?;
        let now = ground.env.now_ns();
        let entry = |n: usize| json!([(now + n as i64).to_string(), format!("line {round} {n}")]);
        let values: Vec<_> = (0..LINES).map(entry).collect();
        let body = json!({"streams": [{"stream": {"job": "objects"}, "values": values}]}).to_string();
        let headers = [("Content-Type", "application/json")];
        let to = (ATTACKER, server.address);
        let (status, text) = raw::request(to, "POST", "/loki/api/v1/push", &headers, body.as_bytes())?;
        if status != 204 {
            bail!("a push was answered with {status} {}", String::from_utf8_lossy(&text));
        }
        if round % 2 == 0 {
            raw::request(to, "POST", "/flush", &[], b"")?;
        }
        server.kill()?;
    }
    Ok(())
}

/// Chooses some objects of each folder of the store.
fn chosen(ground: &Ground<'_>, store: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    list(store, Path::new(""), &mut all)?;
    all.sort();
    let per_folder = ground.pick(2, 6);
    let mut chosen: Vec<PathBuf> = Vec::new();
    for object in all.into_iter().rev() {
        let top = |path: &Path| path.iter().next().map(|part| part.to_owned());
        let same = chosen.iter().filter(|other| top(other) == top(&object)).count();
        if same < per_folder {
            chosen.push(object);
        }
    }
    Ok(chosen)
}

fn list(root: &Path, below: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list(root, &path, into)?;
        } else if entry.metadata()?.len() > 0 {
            into.push(path);
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn damage(object: &Path, kind: &str, seed: u64) -> Result<()> {
    let mut bytes = fs::read(object).with_context(|| object.display().to_string())?;
    match kind {
        "delete" => return Ok(fs::remove_file(object)?),
        "truncate" => bytes.truncate(bytes.len() / 2),
        "empty" => bytes.clear(),
        "flip" => {
            let at = seed as usize % bytes.len().max(1);
            bytes[at] ^= 0x40;
        }
        "junk" => bytes = b"this is not one of our objects".repeat(100),
        // Replaces it by another object of the same folder, as when a wrong backup is restored.
        _ => {
            let folder = object.parent().context("an object is in a folder")?;
            let mut others: Vec<PathBuf> = fs::read_dir(folder)?
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|p| p.is_file())
                .collect();
            others.sort();
            bytes = fs::read(others.first().context("the folder contains the object itself")?)?;
            if others.first().is_some_and(|first| first == object) {
                bytes = fs::read(others.last().context("the folder contains the object itself")?)?;
            }
        }
    }
    Ok(fs::write(object, bytes)?)
}

fn try_it(ground: &Ground<'_>, store: &Path, what: &str) -> Result<()> {
    match ground.setup.serve_store(ground.env, store) {
        Ok(server) => {
            let lines = count(ground, &server)?;
            if lines > (4 * LINES) as u64 {
                ground.tally.finding(format!("{what}: the answer has {lines} lines of {}", 4 * LINES));
            }
            server.kill()?;
        }
        Err(refusal) => {
            let said = format!("{refusal:#}");
            if !said.contains("sandur repair") && !said.contains("sandur check") {
                ground.tally.finding(format!("{what}: the start failed without naming a remedy: {said}"));
            }
            if said.contains("signal: ") || said.contains("panicked") {
                ground.tally.finding(format!("{what}: the start crashed: {said}"));
            }
        }
    }
    check_says(ground.setup, store).map(|said| {
        if let Some(said) = said {
            ground.tally.finding(format!("{what}: {said}"));
        }
    })
}

fn count(ground: &Ground<'_>, server: &Victim) -> Result<u64> {
    let query = sandur_bench::http::escaped(r#"sum(count_over_time({job="objects"}[1h]))"#);
    let time = ground.env.now_ns() + 1_000_000_000;
    let path = format!("/loki/api/v1/query?query={query}&time={time}");
    let (status, body) = raw::request((ATTACKER, server.address), "GET", &path, &[], b"")?;
    ground.tally.answer(status, &path);
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let value = &answer["data"]["result"][0]["value"][1];
    Ok(value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Returns a finding about the output of `sandur check`, if there is one.
fn check_says(setup: &Setup, store: &Path) -> Result<Option<String>> {
    let mut command = Command::new(&setup.program);
    let output = command.args(["check", "--store", &format!("file://{}", store.display())]).output()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.code().is_none() || said.contains("panicked") {
        return Ok(Some(format!("the check crashed with {}: {said}", output.status)));
    }
    Ok(None)
}

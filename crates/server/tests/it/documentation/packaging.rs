//! The packaging: the command lines of the unit and of the image, and what they need.

use std::process::Command;

use super::names::options;
use super::pages::{file, pages};
use super::place::{Place, parse};
use super::shell::{Call, pipeline};
use crate::process::client_is_there;

/// The Sandur command in a line that may begin with another program; its name alone without arguments.
fn ours(line: &str) -> Call {
    let mut call = pipeline(line).into_iter().next().unwrap();
    let at = call.words.iter().position(|word| word == "sandur" || word == "/usr/bin/sandur");
    call.words.drain(..at.unwrap_or_else(|| panic!("no command of ours in '{line}'")));
    "sandur".clone_into(&mut call.words[0]);
    call
}

/// The strings of a JSON list after a word of the Containerfile.
fn list(containerfile: &str, word: &str) -> Vec<String> {
    let line = containerfile.lines().find_map(|line| line.strip_prefix(word)).unwrap();
    serde_json::from_str(line).unwrap()
}

#[test]
fn the_image_starts_as_its_comment_says() {
    let containerfile = file("packaging/Containerfile");
    let program = list(&containerfile, "ENTRYPOINT ");
    assert_eq!(program, ["/usr/bin/sandur"]);
    let default = list(&containerfile, "CMD ");
    let place = Place::new();
    let mut ran = 0;
    for line in containerfile.lines().filter_map(|line| line.find("podman run").map(|at| &line[at..])) {
        let mut call = ours(line);
        if call.words.len() == 1 {
            call.words.extend(default.clone());
            let secret = call.words.iter().position(|word| word == "--auth-file").unwrap() + 1;
            let mount = format!(":{}:ro", call.words[secret]);
            assert!(line.contains(&mount), "there is no mount at {}: {line}", call.words[secret]);
        }
        place.run("packaging/Containerfile", &call);
        ran += 1;
    }
    assert!(ran >= 3, "{ran} command lines");
    let ignored = file(".dockerignore");
    for name in ["target", ".git"] {
        assert!(ignored.lines().any(|line| line == name), "an image must not contain {name}");
    }
}

#[test]
fn the_unit_passes_files_that_its_user_cannot_read() {
    let unit = file("packaging/sandur.service");
    let lines: Vec<&str> = unit.lines().map(|line| line.trim_start_matches('#')).collect();
    let starts = lines.iter().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    parse("packaging/sandur.service", &ours(starts));
    assert!(lines.contains(&"DynamicUser=yes"), "with a permanent user files could belong to it");
    let handed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("LoadCredential=")).collect();
    let variables = lines.iter().filter_map(|line| line.strip_prefix("Environment="));
    let pairs: Vec<(&str, &str)> =
        variables.flat_map(|line| line.split(' ')).map(|pair| pair.split_once('=').unwrap()).collect();
    let options = options();
    for (variable, path) in &pairs {
        let is_option =
            |key: &String| format!("SANDUR_{}", key.replace('.', "_").to_uppercase()) == *variable;
        assert!(options.keys().any(is_option), "no option {variable}");
        let name = path.strip_prefix("%d/").unwrap();
        let is_handed = handed.iter().any(|entry| entry.split(':').next() == Some(name));
        assert!(is_handed, "{name} is not passed");
    }
    assert!(pairs.iter().any(|(variable, _)| *variable == "SANDUR_AUTH_FILE") && pairs.len() == handed.len());
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sandur.service");
    let unit = file("packaging/sandur.service").replace("/usr/bin/sandur", "/bin/true");
    let unit = unit.replace("#LoadCredential=", "LoadCredential=").replace("#Environment=", "Environment=");
    std::fs::write(&path, unit.replace("#MemoryMax=", "MemoryMax=")).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        return eprintln!("skipped: there is no systemd-analyze");
    };
    let said = [output.stdout, output.stderr].concat();
    let about_it = String::from_utf8_lossy(&said).lines().any(|line| line.contains("sandur.service"));
    assert!(output.status.success() && !about_it, "{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_command_of_the_unit_of_the_cache_server_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let unit = file("packaging/sandur-cache.service");
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/sandur ")).unwrap();
    // The command is complete except for the file, which is of a size that no file system has room for.
    let flash = folder.path().join("flash").display().to_string();
    let command = command.replace("/var/cache/sandur-cache/flash:8g", &format!("{flash}:900p"));
    let output = Command::new(env!("CARGO_BIN_EXE_sandur")).args(command.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the file system has"), "{said}");
}

#[test]
fn the_documentation_has_one_value_for_the_limit_of_a_cgroup() {
    // Resident memory stays within 110 % of the limit; the memory of the kernel is additional.
    let unit = file("packaging/sandur.service");
    assert!(unit.contains("# Set MemoryMax a fifth above memory_limit"));
    let pages = pages();
    let says: Vec<&str> =
        pages.iter().flat_map(|page| page.text.lines()).filter(|line| line.contains("MemoryMax")).collect();
    assert!(!says.is_empty() && says.iter().all(|line| line.contains("a fifth above")), "{says:?}");
}

#[test]
fn prometheus_accepts_the_alerts_and_the_example_of_remote_write() {
    let pages = pages();
    let page = pages.iter().find(|page| page.name == "docs/production.md").unwrap();
    let blocks = page.blocks();
    let example = blocks.iter().find(|block| block.text.starts_with("remote_write:")).unwrap();
    // Prometheus refuses a whole file with an unknown key; these are known since 2.26.
    let known = ["remote_write", "- url", "headers", "authorization", "queue_config"];
    for line in example.text.lines() {
        let key = line.trim().split(':').next().unwrap();
        assert!(known.contains(&key), "'{key}' is not known to every Prometheus");
    }
    if !client_is_there("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (config, alerts) = (folder.path().join("prometheus.yml"), folder.path().join("alerts.yml"));
    let recorded = folder.path().join("recording.yml");
    std::fs::write(&recorded, file("packaging/recording.yml")).unwrap();
    std::fs::write(&config, &example.text).unwrap();
    std::fs::write(&alerts, file("packaging/alerts.yml")).unwrap();
    for arguments in [
        &["check", "config", "--syntax-only", config.to_str().unwrap()][..],
        &["check", "rules", alerts.to_str().unwrap(), recorded.to_str().unwrap()],
    ] {
        let output = Command::new("promtool").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

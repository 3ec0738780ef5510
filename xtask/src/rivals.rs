//! `cargo xtask rivals`: builds real clients and servers from the Go module registry into `.tools/bin`.
//!
//! `go install pkg@version` refuses modules with `replace` directives, so each program gets a scratch
//! module that requires it and repeats its replaces onto published versions. A program that is
//! already in `.tools/bin` at the right version is not built again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{find, output, require, run as run_command, tools};

/// A published Go program.
pub struct Program {
    /// Name of the binary.
    pub name: &'static str,
    module: &'static str,
    version: &'static str,
    package: &'static str,
    about: &'static str,
}

/// Everything that can be built. Without names, `rivals` builds what the tests use.
const PROGRAMS: &[Program] = &[
    Program {
        name: "versitygw",
        module: "github.com/versity/versitygw",
        version: "v1.8.0",
        package: "github.com/versity/versitygw/cmd/versitygw",
        about: "S3 server over a directory",
    },
    Program {
        name: "minio",
        module: "github.com/minio/minio",
        version: "v0.0.0-20260212201848-7aac2a2c5b7c",
        package: "github.com/minio/minio",
        about: "S3 server that syncs its writes",
    },
    Program {
        name: "logcli",
        module: "github.com/grafana/loki/v3",
        version: "v3.7.8",
        package: "github.com/grafana/loki/v3/cmd/logcli",
        about: "Loki's command-line client",
    },
    Program {
        name: "telemetrygen",
        module: "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen",
        version: "v0.161.0",
        package: "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen",
        about: "OpenTelemetry's generator",
    },
    Program {
        name: "loki",
        module: "github.com/grafana/loki/v3",
        version: "v3.7.8",
        package: "github.com/grafana/loki/v3/cmd/loki",
        about: "the rival itself, for benchmarks",
    },
];

/// What the tests need.
pub const FOR_TESTS: &[&str] = &["versitygw", "logcli", "telemetrygen"];

/// Builds the named programs, or those that the tests need.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|a| a == "--list") {
        for program in PROGRAMS {
            println!("{:<14}{:<40}{}", program.name, program.version, program.about);
        }
        return Ok(());
    }
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ensure(if named.is_empty() { FOR_TESTS } else { &named })
}

/// Builds those of the named programs that are not there yet.
pub fn ensure(names: &[&str]) -> Result<()> {
    for name in names {
        let program = PROGRAMS.iter().find(|p| p.name == *name);
        let program = program.with_context(|| {
            let known: Vec<&str> = PROGRAMS.iter().map(|p| p.name).collect();
            format!("no recipe for '{name}'; known: {}", known.join(", "))
        })?;
        if let Some(there) = find(name) {
            println!("{name}: {}", there.display());
            continue;
        }
        let advice =
            "install Go 1.24 or newer (Debian: apt-get install golang; or the archive of the Go project)";
        require("go", advice)?;
        build(program).with_context(|| format!("building {name}"))?;
    }
    Ok(())
}

fn build(program: &Program) -> Result<()> {
    println!("{}: building {} {} (once; some minutes)", program.name, program.module, program.version);
    let folder = tools().join("build").join(program.name);
    let binary = tools().join("bin").join(program.name);
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(tools().join("bin"))?;
    fs::write(folder.join("go.mod"), scratch_module(program, &folder)?)?;
    run_command(
        go(&folder)
            .args(["build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o"])
            .arg(&binary)
            .arg(program.package),
    )
}

fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "-buildvcs=false");
    command
}

/// The text of a go.mod that requires the program's module and repeats its replaces and excludes.
/// Replaces onto a local path name nested modules of the same repository: the published version that
/// the module requires anyway is taken for those.
fn scratch_module(program: &Program, folder: &Path) -> Result<String> {
    let fresh = folder.join("go.mod");
    if fresh.exists() {
        fs::remove_file(fresh)?;
    }
    let wanted = format!("{}@{}", program.module, program.version);
    let download: Value =
        serde_json::from_str(&output(go(folder).args(["mod", "download", "-json", &wanted]))?)?;
    let Some(go_mod) = download["GoMod"].as_str() else {
        bail!("the Go module registry does not serve {wanted}: {}", download["Error"]);
    };
    let upstream: Value = serde_json::from_str(&output(go(folder).args(["mod", "edit", "-json", go_mod]))?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut module = format!("module rivals.invalid/{}\n", program.name);
    writeln!(module, "go {}", text(&upstream["Go"]))?;
    writeln!(module, "require {} {}", program.module, program.version)?;
    for replace in upstream["Replace"].as_array().into_iter().flatten() {
        let (old, new) = (&replace["Old"], &replace["New"]);
        if !text(&new["Version"]).is_empty() {
            let from = format!("{} {}", text(&old["Path"]), text(&old["Version"]));
            writeln!(module, "replace {from} => {} {}", text(&new["Path"]), text(&new["Version"]))?;
        }
    }
    for exclude in upstream["Exclude"].as_array().into_iter().flatten() {
        writeln!(module, "exclude {} {}", text(&exclude["Path"]), text(&exclude["Version"]))?;
    }
    Ok(module)
}

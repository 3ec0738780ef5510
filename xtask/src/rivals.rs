//! `cargo xtask rivals`: builds real clients and servers from the Go module registry into `.tools/bin`,
//! builds our own programs that use client libraries, and installs the Python environments.
//!
//! `go install pkg@version` refuses modules with `replace` directives. Therefore each program gets a
//! scratch module that requires it and repeats those of its replaces that name published versions. A
//! program whose current version is already in `.tools/bin` is not built again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{find, output, require, root, run as run_command, tools};
use crate::rival_environments::{self, ENVIRONMENTS};

/// A Go program that can be built.
pub struct Program {
    /// Name of the binary.
    pub name: &'static str,
    about: &'static str,
    origin: Origin,
}

/// The source of a program.
enum Origin {
    /// A published version in the Go module registry.
    Published { module: &'static str, version: &'static str, package: &'static str },
    /// A folder of this repository.
    Ours { folder: &'static str },
}

impl Origin {
    fn version(&self) -> &'static str {
        match self {
            Self::Published { version, .. } => version,
            Self::Ours { .. } => "ours",
        }
    }
}

/// All programs that can be built. Without names, `rivals` builds those that the tests use.
const PROGRAMS: &[Program] = &[
    Program {
        name: "versitygw",
        about: "S3 server over a directory",
        origin: Origin::Published {
            module: "github.com/versity/versitygw",
            version: "v1.8.0",
            package: "github.com/versity/versitygw/cmd/versitygw",
        },
    },
    Program {
        name: "minio",
        about: "S3 server that syncs its writes",
        origin: Origin::Published {
            module: "github.com/minio/minio",
            version: "v0.0.0-20260212201848-7aac2a2c5b7c",
            package: "github.com/minio/minio",
        },
    },
    Program {
        name: "logcli",
        about: "Loki's command-line client",
        origin: Origin::Published {
            module: "github.com/grafana/loki/v3",
            version: "v3.7.8",
            package: "github.com/grafana/loki/v3/cmd/logcli",
        },
    },
    Program {
        name: "telemetrygen",
        about: "OpenTelemetry's generator",
        origin: Origin::Published {
            module: "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen",
            version: "v0.161.0",
            package: "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen",
        },
    },
    Program {
        name: "memcached_exporter",
        about: "Prometheus's exporter of memcached's statistics",
        origin: Origin::Published {
            module: "github.com/prometheus/memcached_exporter",
            version: "v0.14.3",
            package: "github.com/prometheus/memcached_exporter/cmd/memcached_exporter",
        },
    },
    Program {
        name: "cacheclients",
        about: "memcached's clients gomemcache (text) and mc (binary), with what to do with them",
        origin: Origin::Ours { folder: "crates/server/tests/it/memcached_clients" },
    },
    Program {
        name: "whisperfiles",
        about: "writes files with go-carbon's whisper, for tests of the reader",
        origin: Origin::Ours { folder: "crates/whisper/tests/fixtures/make" },
    },
    Program {
        name: "tsdbblocks",
        about: "writes blocks with the code of Prometheus, for tests of the reader",
        origin: Origin::Ours { folder: "crates/tsdb/tests/fixtures/make" },
    },
    Program {
        name: "rulesharness",
        about: "evaluates groups of rules with the code of Prometheus, for the differential tests",
        origin: Origin::Ours { folder: "crates/rules-differential/harness" },
    },
    Program {
        name: "loki",
        about: "the server, for benchmarks",
        origin: Origin::Published {
            module: "github.com/grafana/loki/v3",
            version: "v3.7.8",
            package: "github.com/grafana/loki/v3/cmd/loki",
        },
    },
    Program {
        name: "prometheus",
        about: "the reference of PromQL, for the differential tests and benchmarks",
        origin: Origin::Published {
            module: "github.com/prometheus/prometheus",
            version: "v0.316.0",
            package: "github.com/prometheus/prometheus/cmd/prometheus",
        },
    },
    Program {
        name: "promtool",
        about: "Prometheus's command-line client",
        origin: Origin::Published {
            module: "github.com/prometheus/prometheus",
            version: "v0.316.0",
            package: "github.com/prometheus/prometheus/cmd/promtool",
        },
    },
    Program {
        name: "helm",
        about: "renders and checks the chart in packaging/helm",
        origin: Origin::Published {
            module: "helm.sh/helm/v3",
            version: "v3.22.0",
            package: "helm.sh/helm/v3/cmd/helm",
        },
    },
    Program {
        name: "kubecheck",
        about: "decodes the chart's objects into the types of the Kubernetes API",
        origin: Origin::Ours { folder: "packaging/helm/check" },
    },
    Program {
        name: "collector",
        about: "an OpenTelemetry collector with the components of docs/clients.md",
        origin: Origin::Ours { folder: "xtask/collector" },
    },
    Program {
        name: "victoria-metrics",
        about: "the server, for benchmarks",
        origin: Origin::Published {
            module: "github.com/VictoriaMetrics/VictoriaMetrics",
            version: "v1.150.0",
            package: "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics",
        },
    },
    Program {
        name: "vmalert",
        about: "VictoriaMetrics's evaluator of rules, for benchmarks",
        origin: Origin::Published {
            module: "github.com/VictoriaMetrics/VictoriaMetrics",
            version: "v1.150.0",
            package: "github.com/VictoriaMetrics/VictoriaMetrics/app/vmalert",
        },
    },
];

/// Programs that are faster when they call C (zstd). They are built as their vendors build them.
const WITH_C: &[&str] = &["victoria-metrics", "vmalert"];

/// Build tags that leave out what no test or benchmark uses and what takes longest to compile:
/// Prometheus's service discovery, with the client libraries of all clouds.
const TAGS: &[(&str, &str)] = &[("prometheus", "remove_all_sd"), ("rulesharness", "remove_all_sd")];

/// Programs that the tests need at each change.
pub const FOR_TESTS: &[&str] = &["versitygw", "memcached_exporter", "cacheclients"];

/// Clients that take longer to build than all tests take to run. [`crate::suites::clients`] uses them.
pub const LARGE_CLIENTS: &[&str] = &["logcli", "telemetrygen", "promtool"];

/// Builds the named programs, or those that the tests need.
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|a| a == "--list") {
        for program in PROGRAMS {
            println!("{:<20}{:<40}{}", program.name, program.origin.version(), program.about);
        }
        for environment in ENVIRONMENTS {
            println!("{:<20}{:<40}{}", environment.name, environment.version, environment.about);
        }
        return Ok(());
    }
    let named: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ensure(if named.is_empty() { FOR_TESTS } else { &named })
}

/// Builds or installs those of the named programs that are missing or outdated.
pub fn ensure(names: &[&str]) -> Result<()> {
    for name in names {
        if let Some(environment) = rival_environments::find(name) {
            environment.ensure()?;
            continue;
        }
        let program = PROGRAMS.iter().find(|p| p.name == *name);
        let program = program.with_context(|| {
            let others = ENVIRONMENTS.iter().map(|environment| environment.name);
            let known: Vec<&str> = PROGRAMS.iter().map(|p| p.name).chain(others).collect();
            format!("unknown program '{name}'; known: {}", known.join(", "))
        })?;
        if let Some(there) = find(name).filter(|_| is_current(program)) {
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

/// Whether the existing binary is the required version. A program of ours may have changed since it was
/// built, so Go decides. A published one without a scratch module was installed by hand and is accepted.
fn is_current(program: &Program) -> bool {
    let Origin::Published { module, version, .. } = program.origin else { return false };
    let go_mod = tools().join("build").join(program.name).join("go.mod");
    fs::read_to_string(go_mod).map_or(true, |text| requires(&text, module, version))
}

/// Whether a go.mod requires this version of a module.
fn requires(go_mod: &str, module: &str, version: &str) -> bool {
    go_mod.lines().any(|line| {
        let line = line.split("//").next().unwrap_or_default();
        let mut words = line.split_whitespace().filter(|word| *word != "require");
        words.next() == Some(module) && words.next() == Some(version)
    })
}

fn build(program: &Program) -> Result<()> {
    fs::create_dir_all(tools().join("bin"))?;
    let binary = tools().join("bin").join(program.name);
    let (folder, package) = match program.origin {
        Origin::Ours { folder } => (root().join(folder), "."),
        Origin::Published { module, version, package } => {
            println!("{}: building {module} {version} (once; some minutes)", program.name);
            if binary.exists() {
                // If the build fails, the old program must not remain with the go.mod of the new
                // version.
                fs::remove_file(&binary)?;
            }
            let folder = tools().join("build").join(program.name);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("go.mod"), scratch_module(program.name, module, version, &folder)?)?;
            (folder, package)
        }
    };
    let is_scratch = matches!(program.origin, Origin::Published { .. });
    let calls_c = if WITH_C.contains(&program.name) { "1" } else { "0" };
    // On a new machine Go also builds the complete standard library. Without inlining that takes two
    // thirds of the time.
    let inlining = if FOR_TESTS.contains(&program.name) { "-gcflags=all=-l" } else { "-gcflags=" };
    let tags = TAGS.iter().find(|(name, _)| *name == program.name).map_or("", |(_, tags)| tags);
    run_command(
        go(&folder)
            .env("CGO_ENABLED", calls_c)
            .args(["build", if is_scratch { "-mod=mod" } else { "-mod=readonly" }, inlining])
            .args(["-tags", tags])
            .args(["-trimpath", "-ldflags", "-s -w", "-o"])
            .arg(&binary)
            .arg(package),
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

/// Returns the text of a go.mod that requires the program's module and repeats its replaces and
/// excludes. A replace by a local path names a nested module of the same repository; for it, the
/// published version that the module requires is used.
fn scratch_module(name: &str, module: &str, version: &str, folder: &Path) -> Result<String> {
    let fresh = folder.join("go.mod");
    if fresh.exists() {
        fs::remove_file(fresh)?;
    }
    let wanted = format!("{module}@{version}");
    let download: Value =
        serde_json::from_str(&output(go(folder).args(["mod", "download", "-json", &wanted]))?)?;
    let Some(go_mod) = download["GoMod"].as_str() else {
        bail!("the Go module registry does not serve {wanted}: {}", download["Error"]);
    };
    let upstream: Value = serde_json::from_str(&output(go(folder).args(["mod", "edit", "-json", go_mod]))?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut scratch = format!("module rivals.invalid/{name}\n");
    writeln!(scratch, "go {}", text(&upstream["Go"]))?;
    writeln!(scratch, "require {module} {version}")?;
    for replace in upstream["Replace"].as_array().into_iter().flatten() {
        let (old, new) = (&replace["Old"], &replace["New"]);
        if !text(&new["Version"]).is_empty() {
            let from = format!("{} {}", text(&old["Path"]), text(&old["Version"]));
            writeln!(scratch, "replace {from} => {} {}", text(&new["Path"]), text(&new["Version"]))?;
        }
    }
    for exclude in upstream["Exclude"].as_array().into_iter().flatten() {
        writeln!(scratch, "exclude {} {}", text(&exclude["Path"]), text(&exclude["Version"]))?;
    }
    Ok(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_version_is_not_current() {
        let single = "module rivals.invalid/x\ngo 1.26\nrequire example.org/x v1.2.0\n";
        let block = "require (\n\texample.org/x v1.2.0 // indirect\n\texample.org/x/y v3.0.0\n)\n";
        for go_mod in [single, block] {
            assert!(requires(go_mod, "example.org/x", "v1.2.0"));
            assert!(!requires(go_mod, "example.org/x", "v1.2.1"));
            assert!(!requires(go_mod, "example.org/x", "v3.0.0"));
        }
        assert!(!requires("// example.org/x v1.2.0", "example.org/x", "v1.2.0"));
    }
}

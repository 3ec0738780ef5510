//! Rivals and clients that are Python packages. Each has its own virtual environment below `.tools`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::{require, run, tools};

/// A virtual environment.
pub struct Environment {
    /// Name of its directory.
    pub name: &'static str,
    /// What it contains and is used for.
    pub about: &'static str,
    /// The version of its main package.
    pub version: &'static str,
    /// All packages to install, with their versions. Dependencies are not resolved, because those that
    /// graphite-web declares cannot be satisfied by a Django that supports current Python.
    packages: &'static [&'static str],
}

/// All environments.
pub const ENVIRONMENTS: &[Environment] = &[Environment {
    name: "graphite-web",
    about: "the reference of Graphite, for the differential and as a client",
    version: "1.1.10",
    packages: &[
        "graphite-web==1.1.10",
        "whisper==1.1.10",
        "Django==3.2.25",
        "asgiref==3.8.1",
        "sqlparse==0.5.3",
        "pytz==2025.2",
        "django-tagging==0.5.0",
        "pyparsing==2.4.7",
        "six==1.17.0",
        "urllib3==1.26.20",
    ],
}];

impl Environment {
    /// Returns the path of its Python interpreter.
    pub fn python(&self) -> PathBuf {
        tools().join(self.name).join("bin/python")
    }

    /// Creates the environment unless it exists.
    pub fn ensure(&self) -> Result<()> {
        let folder = tools().join(self.name);
        let complete = folder.join("complete");
        if complete.exists() {
            println!("{}: {}", self.name, folder.display());
            return Ok(());
        }
        println!("{}: installing {} (once)", self.name, self.version);
        require(
            "python3",
            "install Python 3.8 or newer with its module venv (Debian: apt-get install python3-venv)",
        )?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut install = Command::new(self.python());
        install.args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(self.packages);
        run(&mut install)?;
        std::fs::write(complete, self.version)?;
        Ok(())
    }
}

/// Returns the environment with this name.
pub fn find(name: &str) -> Option<&'static Environment> {
    ENVIRONMENTS.iter().find(|environment| environment.name == name)
}

//! Rivals and clients that are Python packages: each has a virtual environment of its own below `.tools`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process::{require, run, tools};

/// A virtual environment.
pub struct Environment {
    /// Name of its folder.
    pub name: &'static str,
    /// What is in it.
    pub about: &'static str,
    /// The version of what it is there for.
    pub version: &'static str,
    /// Packages with their versions. They are all that is installed: what graphite-web names itself cannot
    /// be met with a Django that knows the Python of today.
    packages: &'static [&'static str],
}

/// Every environment.
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
    /// Its Python.
    pub fn python(&self) -> PathBuf {
        tools().join(self.name).join("bin/python")
    }

    /// Makes it, unless it is there.
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

/// The environment of a name.
pub fn find(name: &str) -> Option<&'static Environment> {
    ENVIRONMENTS.iter().find(|environment| environment.name == name)
}

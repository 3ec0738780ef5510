//! Runs scripts and reports the results.

use std::fmt;
use std::path::{Path, PathBuf};

use sandur_runtime::Env;

use crate::answer::difference;
use crate::script::{self, Command};
use crate::world::{Place, World, ask};

/// The results of a script.
pub struct FileReport {
    /// Path of the script.
    pub path: PathBuf,
    /// Number of evaluations in the script.
    pub evals: usize,
    /// For each place, the number of correct evaluations.
    pub passed: Vec<(Place, usize)>,
    /// Descriptions of the failures.
    pub failures: Vec<String>,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name:<36} {:>5} evals", self.evals)?;
        self.passed.iter().try_for_each(|(place, passed)| write!(f, "   {} {passed}", place.name()))
    }
}

/// Returns the scripts at a path: the file itself, or every `.logqltest` file of a directory, sorted by
/// name.
pub fn scripts(path: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    if !std::fs::metadata(path).map_err(wrong)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        if file.extension().is_some_and(|e| e == "logqltest") {
            files.push(file);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("{}: no .logqltest file", path.display())),
        false => Ok(files),
    }
}

/// Runs a script in each place. Fails if the script cannot be read or a place cannot be opened.
pub fn run_file(path: &Path, places: &[Place]) -> Result<FileReport, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let commands = script::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let evals = commands.iter().filter(|c| matches!(c, Command::Eval(_))).count();
    let mut report = FileReport { path: path.to_owned(), evals, passed: Vec::new(), failures: Vec::new() };
    for place in places {
        let failures =
            run_in(*place, &commands).map_err(|e| format!("{} ({}): {e}", path.display(), place.name()))?;
        report.passed.push((*place, evals - failures.len()));
        report.failures.extend(failures.into_iter().map(|f| format!("{}:{f}", path.display())));
    }
    Ok(report)
}

fn run_in(place: Place, commands: &[Command]) -> Result<Vec<String>, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let mut world = World::open(place).await?;
        let env = Env::simulated(1, script::EPOCH_NS);
        let mut failures = Vec::new();
        for command in commands {
            match command {
                Command::Clear => world.clear(),
                Command::Load(rows) => world.load(rows).await?,
                Command::Eval(eval) => {
                    for view in world.views().await? {
                        let result = ask(&env, &view, eval).await;
                        if let Some(wrong) = difference(eval, result) {
                            let (line, query) = (eval.line, &eval.request.query);
                            failures.push(format!("{line} ({})\n  {query}\n  {wrong}", view.name));
                            break;
                        }
                    }
                }
            }
        }
        world.close().await?;
        Ok(failures)
    })
}

//! Compares with recorded answers of Graphite: `/render`, paths, tags and times, on the stored series in
//! memory and in a real engine.
//!
//! The recordings are not part of this repository; their own documentation says what each file contains
//! and how answers are compared.

mod attime;
mod binary;
mod carbonapi;
mod cases;
mod compare;
mod find;
mod functions;
mod memory;
pub mod originals;
mod place;
mod recorded;
mod render;
mod report;
mod rings;
mod second;
mod vm;

use std::path::Path;

use crate::world::Place;
pub use report::Report;

/// Runs the cases of every file of a folder. Cases that read stored series run in each of the places.
pub fn run(folder: &Path, places: &[Place]) -> Result<Vec<Report>, String> {
    let mut reports = Vec::new();
    for place in places {
        reports.push(find::run(folder, *place)?);
        reports.push(render::run(folder, *place)?);
    }
    for run in [attime::run, functions::run, vm::run, carbonapi::run, rings::run] {
        reports.push(run(folder)?);
    }
    Ok(reports)
}

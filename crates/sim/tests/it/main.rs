//! Runs a few seeds of the simulation at each change; `cargo xtask sim` runs thousands.

mod backups;
mod damage;
mod fleet;
mod seeds;
mod step_cache;
mod step_cache_of_samples;

//! Goals: promises of the simulation hold for a few seeds at each change; `cargo xtask sim` runs thousands.

mod damage;
mod seeds;
mod step_cache;

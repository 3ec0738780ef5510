//! The contract of the cache engine, through its public face. One binary, so that one is linked.

mod faults;
mod forecast;
mod races;
mod ram;
mod restarts;
mod stops;
mod tenants;
mod tiers;

//! Tests of the cache engine through its public interface. One binary, so that only one is linked.

mod faults;
mod forecast;
mod races;
mod ram;
mod restarts;
mod stops;
mod tenants;
mod tiers;

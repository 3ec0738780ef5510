//! Tests of the flash tier as a whole, over the fault-injecting device and over files.

mod basics;
mod world;

//! The fault-injecting twin (built next).

//! The protocols from outside: recorded inputs of carbon, and hostile ones.

mod conformance;
mod hostile;

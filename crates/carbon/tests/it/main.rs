//! Tests of the protocols through the public interface: recorded inputs of carbon, and hostile inputs.

mod conformance;
mod hostile;

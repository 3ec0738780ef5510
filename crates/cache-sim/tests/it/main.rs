//! Tests of the simulator and the prediction over complete loads. One binary, so that only one is linked.

mod hit_ratios;
mod prediction;
mod public_trace;

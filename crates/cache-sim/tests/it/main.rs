//! What the simulator and the prediction promise, over whole loads. One binary, so that one is linked.

mod hit_ratios;
mod prediction;
mod public_trace;

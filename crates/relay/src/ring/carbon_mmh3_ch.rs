//! Carbon's `mmh3_ch`: signed 32 bits of MurmurHash3 over the pair of host and instance.

use super::carbon::ring;
use super::{Ring, RingError};
use crate::hash::mmh3::mmh3;
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    ring(nodes, |key| i64::from(mmh3(key)), |_, pair, replica| format!("{pair}:{replica}"))
}

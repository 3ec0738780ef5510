//! Carbon's `carbon_ch`: 16 bits of MD5 over the pair of host and instance as Python prints it.

use super::carbon::ring;
use super::{Ring, RingError};
use crate::hash::md5::position;
use crate::node::Node;

pub(super) fn build(nodes: &[Node]) -> Result<Box<dyn Ring>, RingError> {
    ring(nodes, |key| i64::from(position(key)), |_, pair, replica| format!("{pair}:{replica}"))
}

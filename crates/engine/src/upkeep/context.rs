//! What the parts of upkeep use.

use std::sync::Arc;

use sandur_base::Id;

use crate::blocks::reader::BlockReader;
use crate::node::Node;
use crate::options::MaintenanceOptions;
use crate::rules::Rulebook;
use crate::upkeep::author::Author;

/// The surroundings of upkeep: the node, the author of its commits, its options.
#[derive(Clone)]
pub(crate) struct UpkeepContext {
    pub(crate) node: Arc<Node>,
    pub(crate) author: Arc<dyn Author>,
    /// A reader that no tenant's rates limit.
    pub(crate) reader: BlockReader,
    pub(crate) rulebook: Arc<Rulebook>,
    pub(crate) options: MaintenanceOptions,
}

impl UpkeepContext {
    /// The incarnation that commits now.
    pub(crate) fn incarnation(&self) -> Id {
        self.author.incarnation()
    }
}

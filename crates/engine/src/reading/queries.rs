//! What queries read: the view, the blocks, the delete rules, and the followers of new rows.

use std::sync::Arc;

use sandur_query::Sources;

use crate::blocks::reader::BlockReader;
use crate::logs::Followers;
use crate::logs::reading::EngineLogs;
use crate::node::Node;
use crate::options::EngineOptions;
use crate::reading::freshness::Freshness;
use crate::rules::Rulebook;
use crate::samples::reading::EngineSamples;
use crate::view::Views;

/// The read half of an engine.
pub(crate) struct Queries {
    views: Arc<Views>,
    /// Reads blocks and caches what it decodes.
    pub(crate) reader: BlockReader,
    /// The delete requests, compiled: what they hide and remove.
    pub(crate) rulebook: Arc<Rulebook>,
    /// The age of the view.
    pub(crate) freshness: Freshness,
    pub(crate) followers: Arc<Followers>,
}

impl Queries {
    pub(crate) fn new(node: &Node, reader: BlockReader, options: &EngineOptions) -> Self {
        Self {
            views: Arc::clone(&node.views),
            reader,
            rulebook: Arc::new(Rulebook::new(&node.env, options.deletes.clone())),
            freshness: Freshness::new(node, options),
            followers: Arc::default(),
        }
    }

    /// Returns the sources for queries over all blocks and heads.
    pub(crate) fn sources(&self) -> Sources {
        let found = || (Arc::clone(&self.views), self.freshness.clone());
        let (reader, rulebook) = (&self.reader, &self.rulebook);
        let followers = Arc::clone(&self.followers);
        let logs = EngineLogs::new(found(), followers, reader.clone(), Arc::clone(rulebook));
        let samples = EngineSamples::new(found(), reader.clone(), Arc::clone(rulebook));
        Sources { logs: Arc::new(logs), samples: Arc::new(samples) }
    }
}

//! The dictionary of one batch of series: texts, numbered as they come, each once.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::sample_source::Dictionary;

/// Bytes that a text takes beside its own: the shared text, its places in list and map.
pub const TEXT_BYTES: u64 = 72;

/// A dictionary that is being made.
#[derive(Default)]
pub struct BatchTexts {
    list: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32, FixedState>,
}

/// A dictionary that is made.
struct Texts(Vec<Arc<str>>);

impl BatchTexts {
    /// The id of a text, new if it did not come before.
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let (id, text) = (self.list.len() as u32, Arc::<str>::from(text));
        self.list.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The texts by id.
    pub fn finish(self) -> Arc<dyn Dictionary> {
        Arc::new(Texts(self.list))
    }
}

impl Dictionary for Texts {
    fn text(&self, id: u32) -> &str {
        &self.0[id as usize]
    }

    fn memory_bytes(&self) -> u64 {
        self.0.iter().map(|text| text.len() as u64 + TEXT_BYTES).sum()
    }
}

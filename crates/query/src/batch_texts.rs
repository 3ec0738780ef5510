//! Builds the dictionary of a batch of series: distinct texts, numbered in the order of their
//! appearance.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use crate::series_batch::Dictionary;

/// Bytes of a text besides its characters: the shared allocation, and its entries in list and map.
pub const TEXT_BYTES: u64 = 72;

/// A dictionary under construction.
#[derive(Default)]
pub struct BatchTexts {
    list: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, u32, FixedState>,
}

/// A finished dictionary.
struct Texts(Vec<Arc<str>>);

impl BatchTexts {
    /// The id of a text; assigns a new one if the text is new.
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let (id, text) = (self.list.len() as u32, Arc::<str>::from(text));
        self.list.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The finished dictionary.
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

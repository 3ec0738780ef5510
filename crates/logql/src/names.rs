//! Label names as small numbers. A pipeline knows its own names from the start. Each worker adds the names
//! that it meets, so numbers are comparable only within one worker.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

/// The number of a label name in one [`Names`].
pub type NameId = u32;

/// The suffix of an extracted label whose name is taken by a stream label or structured metadata.
const EXTRACTED: &str = "_extracted";

/// The label names of a worker.
#[derive(Clone, Default)]
pub struct Names {
    list: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId, FixedState>,
    /// For each name, the number of the name with `_extracted` appended, once it was needed.
    extracted: Vec<Option<NameId>>,
    text_bytes: usize,
}

impl Names {
    /// The number of a name, which is added if it is new.
    pub fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.list.len() as NameId;
        self.text_bytes += name.len();
        let name: Arc<str> = name.into();
        self.list.push(Arc::clone(&name));
        self.extracted.push(None);
        self.ids.insert(name, id);
        id
    }

    /// The number of a name, if it is known.
    pub fn find(&self, name: &str) -> Option<NameId> {
        self.ids.get(name).copied()
    }

    /// The name with this number.
    pub fn name(&self, id: NameId) -> &Arc<str> {
        &self.list[id as usize]
    }

    /// The bytes of the names.
    pub fn memory_bytes(&self) -> u64 {
        (self.text_bytes + self.list.len() * 80) as u64
    }

    /// The number of the name with `_extracted` appended.
    pub fn extracted(&mut self, id: NameId) -> NameId {
        if let Some(found) = self.extracted[id as usize] {
            return found;
        }
        let name = format!("{}{EXTRACTED}", self.list[id as usize]);
        let found = self.id(&name);
        self.extracted[id as usize] = Some(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut names = Names::default();
        let a = names.id("a");
        let b = names.id("b");
        assert_ne!(a, b);
        assert_eq!(names.id("a"), a);
        let extracted = names.extracted(a);
        assert_eq!(&**names.name(extracted), "a_extracted");
        assert_eq!(names.extracted(a), extracted);
        assert_eq!((names.find("b"), names.find("c")), (Some(b), None));
    }
}

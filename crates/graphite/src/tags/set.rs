//! The tags of a series.

use std::fmt::Display;

/// Names and values, each name once, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(Vec<(String, String)>);

impl Tags {
    /// The tags of a series that has only a name.
    pub fn of_name(name: &str) -> Self {
        Self(vec![("name".to_owned(), name.to_owned())])
    }

    /// The value of a tag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Sets a tag to the text of a value.
    pub fn set(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes a tag.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(own, _)| own != name);
    }

    /// All tags.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Removes the tags that the other set does not have with the same value.
    pub fn keep_shared(&mut self, other: &Tags) {
        self.0.retain(|(name, value)| other.get(name) == Some(value));
    }

    /// The number of tags.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

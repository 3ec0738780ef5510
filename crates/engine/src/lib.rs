//! draft
#[cfg(test)]
mod fixtures;
pub mod head;

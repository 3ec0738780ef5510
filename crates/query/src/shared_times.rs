//! Times of samples, shared by series that were sampled together.

use std::ops::Deref;
use std::sync::Arc;

/// Rising times in milliseconds since the epoch. Clones share the list, so that a reader can do work
/// that depends only on times once for all series with the same list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedTimes(Arc<Vec<i64>>);

impl SharedTimes {
    /// Appends a time; first copies the list if it is shared.
    pub fn push(&mut self, time: i64) {
        Arc::make_mut(&mut self.0).push(time);
    }

    /// Whether both share the same list; does not compare times.
    #[inline]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for SharedTimes {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        &self.0
    }
}

impl From<Vec<i64>> for SharedTimes {
    fn from(times: Vec<i64>) -> Self {
        Self(Arc::new(times))
    }
}

impl From<Arc<Vec<i64>>> for SharedTimes {
    fn from(times: Arc<Vec<i64>>) -> Self {
        Self(times)
    }
}

impl Extend<i64> for SharedTimes {
    fn extend<I: IntoIterator<Item = i64>>(&mut self, times: I) {
        Arc::make_mut(&mut self.0).extend(times);
    }
}

impl FromIterator<i64> for SharedTimes {
    fn from_iter<I: IntoIterator<Item = i64>>(times: I) -> Self {
        Vec::from_iter(times).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_the_list_until_one_of_them_changes() {
        let first = SharedTimes::from(vec![1, 2]);
        let mut second = first.clone();
        assert!(first.is_shared_with(&second));
        second.push(3);
        assert_eq!((&first[..], &second[..]), (&[1, 2][..], &[1, 2, 3][..]));
        assert!(!first.is_shared_with(&second) && !first.is_shared_with(&SharedTimes::from(vec![1, 2])));
    }
}

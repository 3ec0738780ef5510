//! Assigns series to the groups of an aggregation by their labels.

use sandur_memory::Stopped;

use crate::labels::{ByLabels, LabelPool, LabelsId, TextSet, is_reserved};
use crate::run::Run;

/// The bytes of an entry that maps a label set to its group.
pub const GROUP_BYTES: u64 = 64;

/// The groups of an aggregation.
pub struct Grouping {
    /// The labels of `by` or `without`.
    names: TextSet,
    /// Whether the labels are those of `without`.
    without: bool,
    /// The numbers of groups, by the labels of groups.
    groups: ByLabels,
    /// The numbers of groups, by the labels of series.
    known: ByLabels,
    /// The labels of each group.
    pub labels: Vec<LabelsId>,
}

impl Grouping {
    /// A grouping without groups.
    pub fn new(names: TextSet, without: bool) -> Self {
        Self { names, without, groups: ByLabels::default(), known: ByLabels::default(), labels: Vec::new() }
    }

    /// The labels of the group to which a label set belongs.
    pub fn labels_of(&self, labels: LabelsId, pool: &mut LabelPool) -> LabelsId {
        match self.without {
            true => pool.filtered(labels, |name| !is_reserved(name) && !self.names.contains(name)),
            false if self.names.is_empty() => LabelsId::EMPTY,
            false => pool.filtered(labels, |name| self.names.contains(name)),
        }
    }

    /// The number of the group to which a label set belongs.
    pub fn group_of(&mut self, labels: LabelsId, run: &mut Run) -> Result<usize, Stopped> {
        if let Some(group) = self.known.get(labels) {
            return Ok(group);
        }
        let own = self.labels_of(labels, &mut run.pool);
        let group = self.group_with(own, run)?;
        run.keep(self.known.growth(labels))?;
        self.known.put(labels, group);
        Ok(group)
    }

    /// The number of the group with exactly these labels, which is created if it is new.
    pub fn group_with(&mut self, own: LabelsId, run: &mut Run) -> Result<usize, Stopped> {
        if let Some(group) = self.groups.get(own) {
            return Ok(group);
        }
        run.keep(GROUP_BYTES + self.groups.growth(own))?;
        let group = self.labels.len();
        self.groups.put(own, group);
        self.labels.push(own);
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_drops_the_name_type_and_unit() {
        let pool = &mut LabelPool::default();
        let mut labels = LabelsId::EMPTY;
        for (name, value) in
            [("__name__", "m"), ("__type__", "gauge"), ("__unit__", "s"), ("a", "1"), ("b", "2")]
        {
            let (name, value) = (pool.text_id(name), pool.text_id(value));
            labels = pool.with(labels, name, value);
        }
        let mut of = |names: &[&str], without| {
            let names: Vec<_> = names.iter().map(|name| pool.text_id(name)).collect();
            let own = Grouping::new(names.into_iter().collect(), without).labels_of(labels, pool);
            pool.show(own)
        };
        assert_eq!(of(&["a"], true), r#"{b="2"}"#);
        assert_eq!(of(&[], true), r#"{a="1", b="2"}"#);
        assert_eq!(of(&["a", "__type__"], false), r#"{__type__="gauge", a="1"}"#);
        assert_eq!(of(&[], false), "{}");
    }
}

//! Groups templates that differ in a few words: a fixed-depth tree after Drain (He, Zhu, Zheng, Lyu: "Drain:
//! an online log parsing approach with fixed depth tree", ICWS 2017).
//!
//! The tree has two levels. The first level is the log level and the skeleton, which discriminates better
//! than the paper's number of words: the templates of a group differ only in words. The second level is the
//! first word. Its leaves are lists of clusters. A template joins the cluster with which it shares the most
//! words, provided that these are at least half of the slots that are words in both. Words that differ
//! become values permanently.
//!
//! **Bounds:** at most [`CLUSTERS_MAX`] clusters; when that is exceeded, the half with the fewest lines is
//! dropped.

use std::collections::{BTreeMap, HashMap};

use sandur_model::Level;

use super::template::{SLOT, Template, pattern};

/// The most clusters at a time. An answer has at most 300, but small clusters may still grow.
const CLUSTERS_MAX: usize = 2_000;
/// The bytes of a cluster without its text.
const CLUSTER_BYTES: u64 = 160;
/// The bytes of a point of a cluster.
const POINT_BYTES: u64 = 16;

/// Numbers of lines by the start of their step, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub Vec<(i64, u64)>);

impl Counts {
    /// Counts lines of one step; cheap if steps come in ascending order.
    pub fn add(&mut self, step: i64, lines: u64) {
        match self.0.last_mut() {
            Some(last) if last.0 == step => last.1 += lines,
            Some(last) if last.0 < step => self.0.push((step, lines)),
            None => self.0.push((step, lines)),
            Some(_) => match self.0.binary_search_by_key(&step, |point| point.0) {
                Ok(n) => self.0[n].1 += lines,
                Err(n) => self.0.insert(n, (step, lines)),
            },
        }
    }

    /// The number of all lines.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|point| point.1).sum()
    }
}

/// Lines with the same skeleton and the same words except those that became values.
#[derive(Debug)]
struct Cluster {
    /// A word per slot; empty for a value.
    words: Vec<Box<[u8]>>,
    counts: Counts,
}

/// The place of clusters in the tree: level, skeleton, first word.
type Place = (Level, Box<[u8]>, Box<[u8]>);

/// The tree.
#[derive(Debug, Default)]
pub struct Clusters {
    /// Ordered, so that equal input gives equal patterns.
    groups: BTreeMap<Place, Vec<Cluster>>,
    clusters: usize,
    bytes: u64,
}

/// A mined pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mined {
    /// The pattern, for `|>`.
    pub pattern: String,
    /// The level of its lines.
    pub level: Level,
    /// The numbers of its lines by step.
    pub counts: Counts,
}

impl Clusters {
    /// Adds the lines of a template.
    pub fn add(&mut self, level: Level, template: &Template, counts: &Counts) {
        let words: Vec<&[u8]> = template.slots().collect();
        let first: Box<[u8]> = words.first().copied().unwrap_or_default().into();
        let place = (level, template.skeleton.as_slice().into(), first);
        let group = self.groups.entry(place).or_default();
        let cluster = match nearest(group, &words) {
            Some(n) => &mut group[n],
            None => {
                self.clusters += 1;
                self.bytes += CLUSTER_BYTES + template.bytes();
                let words = words.iter().map(|&word| word.into()).collect();
                group.push(Cluster { words, counts: Counts::default() });
                group.last_mut().expect("an element was just pushed")
            }
        };
        for (have, word) in cluster.words.iter_mut().zip(&words) {
            if **have != **word {
                *have = Box::default();
            }
        }
        let before = cluster.counts.0.len();
        counts.0.iter().for_each(|&(step, lines)| cluster.counts.add(step, lines));
        self.bytes += (cluster.counts.0.len() - before) as u64 * POINT_BYTES;
        if self.clusters > CLUSTERS_MAX {
            self.prune();
        }
    }

    /// The approximate bytes of the clusters.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps the half of the clusters with the most lines.
    fn prune(&mut self) {
        let mut totals: Vec<u64> = self.groups.values().flatten().map(|c| c.counts.total()).collect();
        totals.sort_unstable();
        let least = totals[totals.len() / 2];
        let larger = totals.len() - totals.partition_point(|&total| total <= least);
        let mut room = (CLUSTERS_MAX / 2).saturating_sub(larger);
        self.groups.retain(|place, group| {
            group.retain(|cluster| {
                let total = cluster.counts.total();
                let keep = total > least || (total == least && room > 0);
                room -= usize::from(keep && total == least);
                if !keep {
                    let text = place.1.len() + cluster.words.iter().map(|w| w.len() + 1).sum::<usize>();
                    let points = cluster.counts.0.len() as u64 * POINT_BYTES;
                    self.bytes = self.bytes.saturating_sub(CLUSTER_BYTES + text as u64 + points);
                }
                keep
            });
            !group.is_empty()
        });
        self.clusters = self.groups.values().map(Vec::len).sum();
    }

    /// The patterns, those with the most lines first. Clusters with the same pattern are joined.
    pub fn mined(self) -> Vec<Mined> {
        let mut by_pattern: HashMap<(String, Level), Counts> = HashMap::new();
        for ((level, skeleton, _), group) in self.groups {
            for cluster in group {
                let text = pattern(&skeleton, cluster.words.iter().map(|word| &**word));
                let counts = by_pattern.entry((text, level)).or_default();
                cluster.counts.0.iter().for_each(|&(step, lines)| counts.add(step, lines));
            }
        }
        let mined = by_pattern.into_iter().map(|((pattern, level), counts)| Mined { pattern, level, counts });
        let mut mined: Vec<(u64, Mined)> = mined.map(|m| (m.counts.total(), m)).collect();
        mined.sort_by(|(a, x), (b, y)| {
            b.cmp(a).then_with(|| x.pattern.cmp(&y.pattern)).then(x.level.cmp(&y.level))
        });
        mined.into_iter().map(|(_, mined)| mined).collect()
    }

    /// The current pattern of a template's cluster.
    #[cfg(test)]
    fn pattern_of(&self, level: Level, template: &Template) -> Option<String> {
        let words: Vec<&[u8]> = template.slots().collect();
        let first: Box<[u8]> = words.first().copied().unwrap_or_default().into();
        let group = self.groups.get(&(level, template.skeleton.as_slice().into(), first))?;
        let fits =
            |c: &&Cluster| c.words.iter().zip(&words).all(|(have, w)| have.is_empty() || **have == **w);
        let cluster = group.iter().find(fits)?;
        Some(pattern(&template.skeleton, cluster.words.iter().map(|word| &**word)))
    }
}

/// The cluster with the most words in common; of equals, the first.
fn nearest(group: &[Cluster], words: &[&[u8]]) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for (n, cluster) in group.iter().enumerate() {
        let both =
            cluster.words.iter().zip(words).filter(|(have, word)| !have.is_empty() && !word.is_empty());
        let (mut same, mut compared) = (0, 0);
        for (have, word) in both {
            compared += 1;
            same += usize::from(**have == **word);
        }
        if same * 2 >= compared && best.is_none_or(|(most, _)| same > most) {
            best = Some((same, n));
        }
    }
    best.map(|(_, n)| n)
}

const _: () = assert!(SLOT > 0x7F, "a slot must not be a delimiter");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern_text::Pattern;

    fn template(line: &str) -> Template {
        let mut template = Template::default();
        template.mask(line.as_bytes());
        template
    }

    fn mine(lines: &[String]) -> Clusters {
        let mut clusters = Clusters::default();
        for line in lines {
            clusters.add(Level::Info, &template(line), &Counts(vec![(0, 1)]));
        }
        clusters
    }

    #[test]
    fn words_that_differ_become_values() {
        let lines = [
            "user bob logged in from 10.0.0.1",
            "user eve logged in from 10.0.0.2",
            "user bob logged in from 10.0.0.3",
            "cache flush done",
            "cache flush done",
            "disk full",
        ];
        let mined = mine(&lines.map(str::to_owned)).mined();
        let texts: Vec<(&str, u64)> = mined.iter().map(|m| (m.pattern.as_str(), m.counts.total())).collect();
        assert_eq!(texts, [("user <_> logged in from <_>", 3), ("cache flush done", 2), ("disk full", 1)]);
    }

    #[test]
    fn points_stay_in_order() {
        let mut counts = Counts::default();
        for (step, lines) in [(20, 1), (20, 2), (40, 1), (10, 5), (30, 1), (10, 1)] {
            counts.add(step, lines);
        }
        assert_eq!(counts.0, [(10, 6), (20, 3), (30, 1), (40, 1)]);
    }

    #[test]
    fn pruning_keeps_the_largest_clusters() {
        let mut clusters = Clusters::default();
        clusters.add(Level::Info, &template("often seen"), &Counts(vec![(0, 1_000)]));
        for n in 0..3 * CLUSTERS_MAX {
            let name: String = n.to_string().bytes().map(|b| char::from(b - b'0' + b'a')).collect();
            clusters.add(Level::Info, &template(&format!("{name} came")), &Counts(vec![(0, 1)]));
            assert!(clusters.clusters <= CLUSTERS_MAX);
        }
        assert!(clusters.bytes() < CLUSTERS_MAX as u64 * 300, "{}", clusters.bytes());
        assert_eq!(clusters.mined()[0].pattern, "often seen");
    }

    /// A pattern must select the lines that it represents. Lines are built from difficult parts:
    /// consecutive delimiters, punctuation at the end, brackets that look like placeholders.
    #[test]
    fn every_pattern_matches_its_lines() {
        const PIECES: [&str; 32] = [
            "error",
            "level",
            "=",
            " ",
            "  ",
            "\"",
            ":",
            "\":",
            ".",
            "<",
            ">",
            "<_>",
            "<name>",
            "10.0.0.1:80",
            "a1",
            "v1",
            "[",
            "]",
            "é",
            "1.5.",
            "..",
            "::",
            "/",
            "\\\"",
            "\t",
            "user",
            "x=y",
            "5ms.",
            ",",
            "{",
            "}",
            "4bf92f3577b34da6a3ce929d0e0e4736aaaaaaaaaaaaaa",
        ];
        let mut state = 42u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for round in 0..200 {
            let shapes: Vec<Vec<usize>> =
                (0..4).map(|_| (0..1 + next(12)).map(|_| next(PIECES.len())).collect()).collect();
            let lines: Vec<String> = (0..40)
                .map(|_| {
                    let mut shape = shapes[next(shapes.len())].clone();
                    let at = next(shape.len());
                    shape[at] = next(PIECES.len());
                    shape.iter().map(|&p| PIECES[p]).collect()
                })
                .collect();
            let clusters = mine(&lines);
            for line in &lines {
                let text = clusters.pattern_of(Level::Info, &template(line)).expect("the template was added");
                let query = format!("{{a=\"b\"}} |> {}", sandur_model::go_text::quote(&text));
                assert!(crate::parse(&query).is_ok(), "round {round}: {query}");
                let parsed = Pattern::parse(&text).unwrap();
                assert_eq!(parsed.names().count(), 0, "round {round}: {text:?} names a capture");
                assert!(parsed.matches(line.as_bytes()), "round {round}: {text:?} on {line:?}");
            }
        }
    }
}

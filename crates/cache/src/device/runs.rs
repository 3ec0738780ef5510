//! Free runs among consecutive blocks.
//!
//! Invariants: free runs are sorted and never adjacent. A run is lent from the lowest position that has
//! room for it, so that lent runs gather at the beginning and the end stays free.

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first block.
    pub start: usize,
    /// Number of blocks.
    pub blocks: usize,
}

impl Run {
    pub fn end(&self) -> usize {
        self.start + self.blocks
    }
}

/// The free runs of a number of blocks.
pub(super) struct FreeRuns(Vec<Run>);

impl FreeRuns {
    /// All `blocks` are free.
    pub fn new(blocks: usize) -> Self {
        Self(Vec::from_iter((blocks > 0).then_some(Run { start: 0, blocks })))
    }

    /// Lends the lowest run of `blocks` (at least one); `None` if no free run is that long.
    pub fn lend(&mut self, blocks: usize) -> Option<Run> {
        let place = self.0.iter().position(|free| free.blocks >= blocks)?;
        let free = &mut self.0[place];
        let lent = Run { start: free.start, blocks };
        *free = Run { start: lent.end(), blocks: free.blocks - blocks };
        if free.blocks == 0 {
            self.0.remove(place);
        }
        Some(lent)
    }

    /// Frees a lent run.
    pub fn give_back(&mut self, run: Run) {
        let next = self.0.partition_point(|free| free.start < run.start);
        let touches_next = self.0.get(next).is_some_and(|free| free.start == run.end());
        let before = next.checked_sub(1).filter(|before| self.0[*before].end() == run.start);
        match (before, touches_next) {
            (Some(before), true) => {
                self.0[before].blocks += run.blocks + self.0[next].blocks;
                self.0.remove(next);
            }
            (Some(before), false) => self.0[before].blocks += run.blocks,
            (None, true) => {
                let blocks = run.blocks + self.0[next].blocks;
                self.0[next] = Run { start: run.start, blocks };
            }
            (None, false) => self.0.insert(next, run),
        }
    }

    /// The block from which on nothing is lent, where `blocks` is the number of all blocks.
    pub fn lent_to(&self, blocks: usize) -> usize {
        self.0.last().filter(|last| last.end() == blocks).map_or(blocks, |last| last.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix;

    #[test]
    fn each_block_is_lent_once_and_returned_runs_merge() {
        let seed = 7;
        eprintln!("seed {seed}");
        let mut random = SplitMix::new(seed);
        let mut runs = FreeRuns::new(1000);
        let (mut out, mut is_lent) = (Vec::<Run>::new(), vec![false; 1000]);
        for _ in 0..20_000 {
            let blocks = 1 + random.below(40) as usize;
            if random.below(2) == 0 && !out.is_empty() {
                let run = out.swap_remove(random.below(out.len() as u64) as usize);
                is_lent[run.start..run.end()].fill(false);
                runs.give_back(run);
            } else if let Some(run) = runs.lend(blocks) {
                assert_eq!(run.blocks, blocks);
                assert!(is_lent[run.start..run.end()].iter().all(|lent| !lent), "{run:?} is lent twice");
                is_lent[run.start..run.end()].fill(true);
                out.push(run);
            } else {
                let longest = is_lent.split(|lent| *lent).map(<[bool]>::len).max().unwrap();
                assert!(longest < blocks, "lend refused {blocks} blocks, but {longest} are free");
            }
            let end = is_lent.iter().rposition(|lent| *lent).map_or(0, |last| last + 1);
            assert_eq!(runs.lent_to(1000), end);
        }
        out.into_iter().for_each(|run| runs.give_back(run));
        assert_eq!(runs.0, [Run { start: 0, blocks: 1000 }]);
    }

    #[test]
    fn an_empty_pool_lends_nothing() {
        let mut runs = FreeRuns::new(0);
        assert_eq!(runs.lend(1), None);
        assert_eq!(runs.lent_to(0), 0);
    }
}

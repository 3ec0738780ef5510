//! Entries in one array, each a member of one of a few FIFO queues, which are linked lists through the
//! entries.
//!
//! **Invariants.** A place below `u32::MAX` names an entry from `add` until `take`; later it may name
//! another one. Every entry is in exactly one queue. A queue's weight is the sum of its entries'
//! weights. Only `add` allocates, when the array grows.

/// Marks the absence of a place.
const NONE: u32 = u32::MAX;
/// Largest count of uses.
pub const USES_MAX: u8 = 3;
/// Flag of an entry that was read at least once, in the byte of its uses.
const FETCHED: u8 = 0x80;

/// One entry: 24 bytes and the value.
#[derive(Debug)]
pub struct Node<T> {
    pub hash: u64,
    newer: u32,
    older: u32,
    pub weight: u32,
    /// Number of its queue.
    pub queue: u8,
    /// Uses since the last judgement of the entry, and [`FETCHED`].
    uses: u8,
    /// When it joined its queue, by the clock of the code that judges it.
    pub joined: u16,
    /// `None` in a free place.
    value: Option<T>,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    newest: u32,
    oldest: u32,
    weight: u64,
    entries: usize,
}

impl Queue {
    const EMPTY: Self = Self { newest: NONE, oldest: NONE, weight: 0, entries: 0 };
}

/// The array and its `N` queues.
#[derive(Debug)]
pub struct Slab<T, const N: usize> {
    nodes: Vec<Node<T>>,
    /// First free place. `older` of a free place is the next one.
    free: u32,
    queues: [Queue; N],
}

impl<T, const N: usize> Default for Slab<T, N> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE, queues: [Queue::EMPTY; N] }
    }
}

impl<T, const N: usize> Slab<T, N> {
    /// An empty slab.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty slab with memory for `entries` entries.
    pub fn with_room(entries: usize) -> Self {
        Self { nodes: Vec::with_capacity(entries), ..Self::new() }
    }

    /// Adds an entry as the newest of `queue`.
    ///
    /// # Panics
    /// With 2^32 - 1 entries, which do not fit into memory with their values.
    pub fn add(&mut self, queue: u8, hash: u64, weight: u32, value: T) -> u32 {
        let node =
            Node { hash, newer: NONE, older: NONE, weight, queue, uses: 0, joined: 0, value: Some(value) };
        let place = if self.free == NONE {
            assert!(self.nodes.len() < NONE as usize, "a slab holds at most 2^32 - 1 entries");
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let place = self.free;
            self.free = self.nodes[place as usize].older;
            self.nodes[place as usize] = node;
            place
        };
        self.link(place);
        place
    }

    /// Removes the entry at `place`.
    pub fn take(&mut self, place: u32) -> Option<T> {
        let value = self.nodes[place as usize].value.take()?;
        self.unlink(place);
        let node = &mut self.nodes[place as usize];
        node.older = self.free;
        self.free = place;
        Some(value)
    }

    /// Makes the entry the newest of `queue`.
    pub fn move_to(&mut self, place: u32, queue: u8) {
        self.unlink(place);
        self.nodes[place as usize].queue = queue;
        self.link(place);
    }

    /// Changes the weight of an entry.
    pub fn reweigh(&mut self, place: u32, weight: u32) {
        let node = &mut self.nodes[place as usize];
        let queue = &mut self.queues[node.queue as usize];
        queue.weight = queue.weight - u64::from(node.weight) + u64::from(weight);
        node.weight = weight;
    }

    #[inline]
    pub fn node(&self, place: u32) -> &Node<T> {
        &self.nodes[place as usize]
    }

    #[inline]
    pub fn node_mut(&mut self, place: u32) -> &mut Node<T> {
        &mut self.nodes[place as usize]
    }

    /// The entry that has been in `queue` for longest.
    pub fn oldest(&self, queue: u8) -> Option<u32> {
        let place = self.queues[queue as usize].oldest;
        (place != NONE).then_some(place)
    }

    pub fn weight(&self, queue: u8) -> u64 {
        self.queues[queue as usize].weight
    }

    pub fn entries(&self, queue: u8) -> usize {
        self.queues[queue as usize].entries
    }

    /// Number of places, in use and free.
    pub fn places(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of memory, without allocations of the values.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>()
    }

    fn link(&mut self, place: u32) {
        let (queue, weight) = {
            let node = &self.nodes[place as usize];
            (node.queue as usize, node.weight)
        };
        let former = self.queues[queue].newest;
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, former);
        match former {
            NONE => self.queues[queue].oldest = place,
            former => self.nodes[former as usize].newer = place,
        }
        let queue = &mut self.queues[queue];
        queue.newest = place;
        queue.weight += u64::from(weight);
        queue.entries += 1;
    }

    fn unlink(&mut self, place: u32) {
        let (newer, older, weight, queue) = {
            let node = &self.nodes[place as usize];
            (node.newer, node.older, node.weight, node.queue as usize)
        };
        match newer {
            NONE => self.queues[queue].newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.queues[queue].oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        let queue = &mut self.queues[queue];
        queue.weight -= u64::from(weight);
        queue.entries -= 1;
    }
}

impl<T> Node<T> {
    /// The value, unless the place is free.
    #[inline]
    pub fn value(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The value, unless the place is free.
    #[inline]
    pub fn value_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }

    /// Uses since the last judgement of the entry, at most [`USES_MAX`].
    #[inline]
    pub fn uses(&self) -> u8 {
        self.uses & !FETCHED
    }

    /// Sets the uses after a judgement.
    pub fn set_uses(&mut self, uses: u8) {
        self.uses = self.uses & FETCHED | uses.min(USES_MAX);
    }

    /// Whether it was ever read.
    pub fn was_fetched(&self) -> bool {
        self.uses & FETCHED != 0
    }

    /// Counts a use.
    #[inline]
    pub fn use_once(&mut self) {
        let uses = FETCHED | (self.uses() + 1).min(USES_MAX);
        // The counter of a hot entry has its largest value: do not write to the cache line then.
        if self.uses != uses {
            self.uses = uses;
        }
    }
}

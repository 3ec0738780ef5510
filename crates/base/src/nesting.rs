//! Bounds the height and size of syntax trees that come from input.
//!
//! Every recursive walk over a tree (check, plan, print, drop) uses stack for each level. A stack
//! overflow ends the process and the work of every tenant, so the height is bounded where a tree is
//! made: every link from a node to a node of the same kind is a [`Nested`], which cannot be made above
//! [`HEIGHT_MAX`] levels or [`NODES_MAX`] nodes. A recursive parser counts its depth with [`Depth`]. A
//! language that links its trees this way needs no other check.
//!
//! The arithmetic of [`HEIGHT_MAX`]: a level of the deepest recursion (the parser of templates, in a
//! debug build) uses less than 5 KiB of stack, so 100 levels use at most 500 KiB. Threads of tests have
//! 2 MiB, four times as much; threads of the process have [`STACK_BYTES`].

use std::ops::Deref;

use crate::ErrorKind;

/// The most levels of a tree, and of a recursive parser.
pub const HEIGHT_MAX: u16 = 100;
/// The most nodes of a tree.
pub const NODES_MAX: u32 = 2000;
/// Stack size of the threads of the process, in bytes.
pub const STACK_BYTES: usize = 4 << 20;

/// A tree would exceed the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooNested {
    /// Too many levels.
    #[error("more than {HEIGHT_MAX} levels of functions and operators within each other; nest less")]
    Levels,
    /// Too many nodes.
    #[error("more than {NODES_MAX} operands and functions; ask in several queries")]
    Nodes,
}

impl TooNested {
    /// Always [`ErrorKind::Invalid`].
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Height and size of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    height: u16,
    nodes: u32,
}

impl Extent {
    /// The extent of a node without children.
    pub const LEAF: Self = Self { height: 1, nodes: 1 };

    /// The extent of a node with these children.
    pub fn around(children: impl IntoIterator<Item = Extent>) -> Self {
        children.into_iter().fold(Self::LEAF, Self::with)
    }

    fn with(self, child: Self) -> Self {
        Self {
            height: self.height.max(child.height.saturating_add(1)),
            nodes: self.nodes.saturating_add(child.nodes),
        }
    }

    fn checked(self) -> Result<Self, TooNested> {
        match self {
            Self { height, .. } if height > HEIGHT_MAX => Err(TooNested::Levels),
            Self { nodes, .. } if nodes > NODES_MAX => Err(TooNested::Nodes),
            fits => Ok(fits),
        }
    }
}

/// A node that can contain nodes of its own kind.
pub trait Node {
    /// The extents of the direct children.
    fn children(&self) -> impl Iterator<Item = Extent>;
}

/// A boxed node whose tree is within the limits. The tree cannot be changed in place except with
/// [`Nested::with`], which checks the addition.
#[derive(Clone, Debug)]
pub struct Nested<T> {
    node: Box<T>,
    extent: Extent,
}

impl<T: Node> Nested<T> {
    /// Boxes a node; fails when the tree would be too high or too large.
    pub fn new(node: T) -> Result<Self, TooNested> {
        let extent = Extent::around(node.children()).checked()?;
        Ok(Self { node: Box::new(node), extent })
    }

    /// Adds one child, which `add` puts into the node; fails when the tree would be too high or too
    /// large. Unlike [`Nested::new`], it does not visit the existing children.
    pub fn with(mut self, child: Extent, add: impl FnOnce(&mut T)) -> Result<Self, TooNested> {
        self.extent = self.extent.with(child).checked()?;
        add(&mut self.node);
        Ok(self)
    }
}

impl<T> Nested<T> {
    /// Height and size of the tree.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.node
    }
}

/// The recursion depth of a parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth(u16);

impl Depth {
    /// Enters a level; fails when there would be more than [`HEIGHT_MAX`].
    pub fn enter(&mut self) -> Result<(), TooNested> {
        if self.0 >= HEIGHT_MAX {
            return Err(TooNested::Levels);
        }
        self.0 += 1;
        Ok(())
    }

    /// Leaves the innermost level.
    pub fn leave(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// The number of levels entered and not left.
    pub fn levels(&self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct List(Vec<Nested<List>>);

    impl Node for List {
        fn children(&self) -> impl Iterator<Item = Extent> {
            self.0.iter().map(Nested::extent)
        }
    }

    #[test]
    fn a_tree_above_the_limits_is_refused() {
        let mut tree = Nested::new(List::default()).unwrap();
        for _ in 1..HEIGHT_MAX {
            tree = Nested::new(List(vec![tree])).unwrap();
        }
        assert_eq!(tree.extent(), Extent { height: HEIGHT_MAX, nodes: u32::from(HEIGHT_MAX) });
        assert_eq!(Nested::new(List(vec![tree])).err(), Some(TooNested::Levels));

        let leaf = || Nested::new(List::default()).unwrap();
        let grown = |tree: Nested<List>| {
            let child = leaf();
            tree.with(child.extent(), |list| list.0.push(child))
        };
        let two = grown(leaf()).unwrap();
        assert_eq!((two.extent(), two.0.len()), (Extent::around(two.children()), 1));

        let leaves = |count: u32| (0..count).map(|_| leaf()).collect();
        let full = Nested::new(List(leaves(NODES_MAX - 1))).unwrap();
        assert_eq!(full.extent().height, 2);
        assert_eq!(grown(full).err(), Some(TooNested::Nodes));
        assert_eq!(Nested::new(List(leaves(NODES_MAX))).err(), Some(TooNested::Nodes));
        assert!(TooNested::Nodes.to_string().contains(&NODES_MAX.to_string()), "the limit is named");
    }

    #[test]
    fn depth_counts_entered_and_left_levels() {
        let mut depth = Depth::default();
        for _ in 0..HEIGHT_MAX {
            depth.enter().unwrap();
        }
        assert_eq!(depth.enter(), Err(TooNested::Levels));
        depth.leave();
        depth.enter().unwrap();
        assert_eq!(depth.levels(), HEIGHT_MAX);
    }
}

//! The stamps of the frames of a head.

use std::sync::{Arc, PoisonError, RwLock};

use sandur_base::Id;
use sandur_format::stamp::Stamp;

/// Bytes of the stamp of a frame.
pub(super) const STAMP_BYTES: u64 = size_of::<(u32, u64)>() as u64;

/// The stamps of the frames of a head that brought samples. A copy shares them with the head, which grows.
#[derive(Clone, Default)]
pub(super) struct FrameStamps {
    incarnation: Id,
    /// The time of each frame's stamp, by the number of the frame. Both ascend.
    frames: Arc<RwLock<Vec<(u32, u64)>>>,
}

impl FrameStamps {
    pub(super) fn new(incarnation: Id) -> Self {
        Self { incarnation, frames: Arc::default() }
    }

    /// Adds the next frame, if it has a stamp.
    pub(super) fn note(&self, frame: u32, time: u64) {
        let mut frames = self.frames.write().unwrap_or_else(PoisonError::into_inner);
        if time > 0 && frames.last().is_none_or(|(last, _)| *last < frame) {
            frames.push((frame, time));
        }
    }

    /// The stamps from frame `cut` on, with numbers counted from it.
    pub(super) fn since(&self, cut: u32) -> Self {
        let frames = self.frames.read().unwrap_or_else(PoisonError::into_inner);
        let rest = &frames[frames.partition_point(|(frame, _)| *frame < cut)..];
        let frames = rest.iter().map(|(frame, time)| (frame - cut, *time)).collect();
        Self { incarnation: self.incarnation, frames: Arc::new(RwLock::new(frames)) }
    }

    /// The times of the earliest and the latest stamp; `None` without any.
    pub(super) fn bounds(&self) -> Option<(u64, u64)> {
        let frames = self.frames.read().unwrap_or_else(PoisonError::into_inner);
        Some((frames.first()?.1, frames.last()?.1))
    }

    /// Whether no frame has a stamp.
    pub(super) fn is_empty(&self) -> bool {
        self.bounds().is_none()
    }

    /// The number of stamps.
    pub(super) fn len(&self) -> u64 {
        self.frames.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// The stamps of samples of these frames; none at all if no frame has one.
    pub(super) fn of(&self, frames: impl Iterator<Item = u32>) -> Vec<Stamp> {
        let known = self.frames.read().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return Vec::new();
        }
        let mut last = (u32::MAX, Stamp::default());
        let stamp = |frame: u32| {
            if last.0 != frame {
                let time = known.binary_search_by_key(&frame, |(frame, _)| *frame).map(|at| known[at].1);
                let stamp = time.map(|time| Stamp { time, incarnation: self.incarnation });
                last = (frame, stamp.unwrap_or_default());
            }
            last.1
        };
        frames.map(stamp).collect()
    }
}

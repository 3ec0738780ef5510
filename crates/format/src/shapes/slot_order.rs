//! Finds the cells of some fields of a row, without those of the other fields.
//!
//! The cells of a field are in the order of rows and, within a row, in the order of its slots.

use super::opened::ShapedLines;

/// For each slot its index among the slots of its field in its row, and the number of slots of each field
/// in a row.
pub(super) struct SlotOrder {
    /// The index of each slot, by part.
    pub(super) number: Vec<u32>,
    /// Field and number of slots, shape by shape.
    advances: Vec<(u32, u32)>,
    /// Start of the advances of each shape, and the end of the last.
    starts: Vec<usize>,
}

impl SlotOrder {
    /// Returns the order for the wanted fields.
    pub(super) fn new(lines: &ShapedLines, wanted: &[bool]) -> Self {
        let shapes = &lines.shapes;
        let mut order = Self { number: vec![0; shapes.parts.len()], advances: Vec::new(), starts: vec![0] };
        let mut slots = vec![0; wanted.len()];
        for (shape, &first) in shapes.starts.iter().enumerate() {
            let from = order.advances.len();
            for (n, field) in shapes.slots(shape as u16).enumerate().filter(|(_, field)| wanted[*field]) {
                if slots[field] == 0 {
                    order.advances.push((field as u32, 0));
                }
                order.number[first as usize + n] = slots[field];
                slots[field] += 1;
            }
            for (field, count) in &mut order.advances[from..] {
                *count = std::mem::take(&mut slots[*field as usize]);
            }
            order.starts.push(order.advances.len());
        }
        order
    }

    #[inline(always)]
    pub(super) fn advances(&self, shape: usize) -> &[(u32, u32)] {
        &self.advances[self.starts[shape]..self.starts[shape + 1]]
    }
}

//! Tests of reduced lines.

use sandur_model::{LineColumn, LinePart, LineReducer, LineTemplate, SlotRule};

use super::ShapedLines;
use super::tests::{Rows, service};

/// Keeps the slot with this number; a sign before it says whether its contents obey the rule.
struct OneSlot {
    number: usize,
    rule: &'static SlotRule,
}

impl LineReducer for OneSlot {
    fn parts(&self, LineTemplate { slots, contents, .. }: LineTemplate<'_>) -> Option<Vec<LinePart>> {
        let at = *slots.get(self.number)?;
        let sign = if contents.obey(self.number, self.rule) { b"+" } else { b"-" };
        Some(vec![LinePart::Text(sign), LinePart::Copy(at..at + 1)])
    }
}

/// Keeps what follows the first byte of this kind in the constant text.
struct After(u8);

impl LineReducer for After {
    fn parts(&self, LineTemplate { text, .. }: LineTemplate<'_>) -> Option<Vec<LinePart>> {
        let at = text.iter().position(|byte| *byte == self.0)?;
        Some(vec![LinePart::Copy(at..text.len())])
    }
}

fn reduced(rows: &Rows, reducer: &dyn LineReducer, wanted: &[bool]) -> Option<LineColumn> {
    reduced_of(&rows.encoded().unwrap().into(), rows, reducer, wanted)
}

fn reduced_of(
    bytes: &bytes::Bytes,
    rows: &Rows,
    reducer: &dyn LineReducer,
    wanted: &[bool],
) -> Option<LineColumn> {
    let mut lines = ShapedLines::open(bytes, rows.timestamps.len(), rows.text.len()).unwrap();
    lines.reduced(reducer, &rows.timestamps, wanted).unwrap()
}

/// Reads damaged bytes in every way that a reducer can: none may cause a panic.
pub(super) fn survives_reduced(bytes: &bytes::Bytes, rows: &Rows) {
    static ANY: SlotRule = SlotRule::new([true; 256]);
    let wanted = vec![true; rows.timestamps.len()];
    let reducers: [&dyn LineReducer; 2] = [&OneSlot { number: 1, rule: &ANY }, &After(b' ')];
    for reducer in reducers {
        if let Ok(mut lines) = ShapedLines::open(bytes, rows.timestamps.len(), rows.text.len())
            && let Ok(Some(column)) = lines.reduced(reducer, &rows.timestamps, &wanted)
        {
            assert_eq!(column.ends.len(), rows.timestamps.len());
        }
    }
}

fn line_of(rows: &Rows, row: usize) -> &[u8] {
    let start = if row == 0 { 0 } else { rows.ends[row - 1] as usize + 1 };
    &rows.text[start..rows.ends[row] as usize]
}

fn of_bytes(permitted: &[u8]) -> SlotRule {
    SlotRule::new(std::array::from_fn(|byte| permitted.contains(&(byte as u8))))
}

#[test]
fn contents_obey_the_rules_that_they_are_said_to_obey() {
    let digits = of_bytes(b"0123456789");
    let hex = SlotRule { may_be_empty: false, ..of_bytes(b"0123456789abcdef-") };
    let letters = of_bytes(b"abcdefghijklmnopqrstuvwxyz \\\"");
    let words = SlotRule { words: &[b"info", b"warn"], first: [false; 256], ..letters.clone() };
    let mut quoted = SlotRule::new([true; 256]);
    (quoted.bytes[usize::from(b'"')], quoted.first[usize::from(b'"')]) = (false, false);
    (quoted.bytes[usize::from(b'\\')], quoted.first[usize::from(b'\\')]) = (false, false);
    quoted.forbidden = Some([b'"', b'\\']);
    let rules = [digits, hex, letters, words, quoted].map(|rule| &*Box::leak(Box::new(rule)));
    let (mut obeying, mut others) = (0, 0);
    for kind in 0..4 {
        let rows = service(&[kind], 900);
        let bytes = rows.encoded().unwrap().into();
        for rule in rules {
            for number in 0..12 {
                let wanted = vec![true; rows.ends.len()];
                let Some(lines) = reduced_of(&bytes, &rows, &OneSlot { number, rule }, &wanted) else {
                    continue;
                };
                for row in 0..rows.ends.len() {
                    match lines.line(row) {
                        [b'+', content @ ..] => {
                            assert!(rule.permits(content), "kind {kind}, slot {number}: {content:?}");
                            obeying += 1;
                        }
                        [b'-', ..] => others += 1,
                        complete => assert_eq!(complete, line_of(&rows, row)),
                    }
                }
            }
        }
    }
    assert!(obeying > 10_000 && others > 10_000, "{obeying} obey, {others} do not");
}

#[test]
fn only_wanted_rows_have_the_requested_parts() {
    let rows = service(&[1, 2], 1_000);
    let wanted: Vec<bool> = (0..1_000).map(|row| row % 3 != 1).collect();
    let lines = reduced(&rows, &After(b' '), &wanted).unwrap();
    for (row, wanted) in wanted.iter().enumerate() {
        let line = lines.line(row);
        assert!(line_of(&rows, row).ends_with(line));
        assert_eq!(line.first(), wanted.then_some(&b' '), "row {row}");
    }
}

#[test]
fn rows_of_unknown_shapes_are_complete_and_many_of_them_are_refused() {
    let rows = service(&[1, 1, 1, 2], 1_000);
    let lines = reduced(&rows, &After(b'='), &[true; 1_000]).unwrap();
    let complete = (0..1_000).filter(|row| lines.line(*row) == line_of(&rows, *row)).count();
    assert!((1..500).contains(&complete), "{complete} of 1000 lines have no `=`");
    assert!(reduced(&rows, &After(b'['), &[true; 1_000]).is_none(), "most lines have no bracket");
    let none = reduced(&rows, &After(b'['), &[false; 1_000]).unwrap();
    assert!((0..1_000).all(|row| none.line(row).is_empty()));
}

#[test]
fn only_pools_of_the_parts_are_read() {
    let rows = service(&[0], 1_000);
    let bytes = bytes::Bytes::from(rows.encoded().unwrap());
    let mut lines = ShapedLines::open(&bytes, 1_000, rows.text.len()).unwrap();
    let rule = &*Box::leak(Box::new(of_bytes(b"0123456789")));
    lines.reduced(&OneSlot { number: 3, rule }, &rows.timestamps, &[true; 1_000]).unwrap().unwrap();
    let read = (0..lines.fields()).filter(|&field| lines.cells_at(field).is_some()).count();
    assert_eq!(read, 1);
}

#[test]
fn few_rows_of_each_shape_are_refused() {
    let rows = service(&[1], 1_000);
    let some = |count: usize| (0..1_000).map(|row| row < count).collect::<Vec<bool>>();
    assert!(reduced(&rows, &After(b' '), &some(3)).is_none());
    assert!(reduced(&rows, &After(b' '), &some(1_000)).is_some());
}

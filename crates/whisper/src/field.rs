//! Reads big-endian numbers; returns `None` if the bytes end before them.

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

pub(crate) fn f32_at(bytes: &[u8], at: usize) -> Option<f32> {
    array(bytes, at).map(f32::from_be_bytes)
}

pub(crate) fn f64_at(bytes: &[u8], at: usize) -> Option<f64> {
    array(bytes, at).map(f64::from_be_bytes)
}

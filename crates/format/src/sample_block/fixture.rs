//! A block of each version in the repository, which every later version must still read.

use bytes::Bytes;
use sandur_base::Id;
use sandur_model::{TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, BlockOrigin, SeriesList};
use crate::catalog_entry::LogPosition;

const VERSION_1: &[u8] = include_bytes!("../../fixtures/sample-block-v1.bin");

fn origin() -> BlockOrigin {
    let seen = LogPosition { number: 300, checksum: 0xfeed };
    BlockOrigin { seen, deletes_through: 290, inputs: vec![Id::from_parts(5, 7), Id::from_parts(6, 8)] }
}

/// Sample `n` of a series: ordinary numbers, a stale marker, infinities, an ordinary NaN.
fn sample(series: u32, n: u32) -> (i64, u64) {
    let time = 1_795_176_000_000 + i64::from(n) * 15_000 + i64::from(series);
    let bits = match n {
        7 => 0x7ff0_0000_0000_0002,
        8 => f64::INFINITY.to_bits(),
        9 => 0x7ff8_0000_0000_0001,
        n => (f64::from(n) * 0.1 + f64::from(series)).to_bits(),
    };
    (time, bits)
}

fn write_fixture() -> Vec<u8> {
    let tenant = TenantId::new("fixture").unwrap();
    let window = TimeRange::new(1_795_176_000_000_000_000, 1_795_183_200_000_000_000);
    let mut options = BlockOptions::new(tenant, window, 1);
    (options.page_rows, options.origin) = (50, origin());
    let mut list = SeriesList::default();
    for pod in ["a", "b", "c"] {
        list.push([("__name__", "up"), ("pod", pod)].into_iter()).unwrap();
    }
    let mut writer = BlockWriter::new(options, list);
    for series in 0..3 {
        for n in 0..40 {
            let (time, bits) = sample(series, n);
            writer.push(series, time, f64::from_bits(bits)).unwrap();
        }
    }
    let mut out = Vec::new();
    writer.finish(&mut out).unwrap();
    out.concat()
}

#[test]
fn the_fixture_is_read_bit_for_bit() {
    let size = VERSION_1.len() as u64;
    let range = Footer::locate(VERSION_1, size).unwrap();
    let footer = Footer::open(Bytes::from_static(&VERSION_1[range.start as usize..])).unwrap();
    assert_eq!((footer.info().version, footer.info().level, footer.info().rows), (1, 1, 120));
    assert_eq!(footer.info().tenant, TenantId::new("fixture").unwrap());
    assert_eq!(footer.origin(), Some(&origin()));
    let mut seen = 0;
    for page in footer.pages() {
        let bytes = Bytes::from_static(&VERSION_1[page.piece.offset as usize..page.piece.end() as usize]);
        let decoded = page.decode(&bytes).unwrap();
        for run in &decoded.runs {
            for row in run.start as usize..run.end as usize {
                let n = seen % 40;
                assert_eq!((decoded.timestamps[row], decoded.values[row].to_bits()), sample(run.series, n));
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 120);
}

#[test]
#[ignore = "writes the fixture, for a new version of the format only"]
fn write_the_fixture() {
    std::fs::write("fixtures/sample-block-v1.bin", write_fixture()).unwrap();
}

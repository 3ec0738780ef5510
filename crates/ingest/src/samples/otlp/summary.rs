//! Converts points of summaries, `{start_time=2, time=3, count=4, sum=5, quantile_values=6:{quantile=1,
//! value=2}, attributes=7, flags=8}`, to `_sum`, `_count` and a series for each quantile.

use sandur_protobuf::{Reader, Wire};

use super::Export;
use super::metric::{Family, PointHead, decimal, time};
use crate::error::Error;
use crate::samples::labels_check::METRIC_NAME;

impl<'a> Export<'a> {
    pub(super) fn summary_point(&mut self, family: &Family, point: Reader<'a>) -> Result<(), Error> {
        let (mut head, mut count, mut sum) = (PointHead::default(), 0, 0.0);
        let mut fields = point;
        while let Some(key) = fields.key()? {
            match key {
                (2, Wire::Fixed64) => head.start_ms = time(&mut fields)?,
                (3, Wire::Fixed64) => head.time_ms = time(&mut fields)?,
                (4, Wire::Fixed64) => count = fields.fixed64()?,
                (5, Wire::Fixed64) => sum = fields.double()?,
                (8, Wire::Varint) => head.flags = fields.varint()?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        self.note_time(head.time_ms);
        let attributes = self.read_attributes(point, 7)?;
        let mut labels = self.labels(&family.name, &attributes);
        for (suffix, value) in [("_sum", sum), ("_count", count as f64)] {
            labels.insert(METRIC_NAME.to_owned(), format!("{}{suffix}", family.name));
            if self.begin(&labels)? {
                self.point_sample(head, value)?;
                self.builder.end();
            }
        }
        labels.insert(METRIC_NAME.to_owned(), family.name.clone());
        let mut fields = point;
        while let Some(key) = fields.key()? {
            if key != (6, Wire::Bytes) {
                fields.skip(key.1)?;
                continue;
            }
            let (quantile, value) = quantile_value(fields.message()?)?;
            labels.insert("quantile".to_owned(), decimal(quantile));
            if self.begin(&labels)? {
                self.point_sample(head, value)?;
                self.builder.end();
            }
        }
        Ok(())
    }
}

fn quantile_value(mut message: Reader<'_>) -> Result<(f64, f64), Error> {
    let (mut quantile, mut value) = (0.0, 0.0);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Fixed64) => quantile = message.double()?,
            (2, Wire::Fixed64) => value = message.double()?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((quantile, value))
}

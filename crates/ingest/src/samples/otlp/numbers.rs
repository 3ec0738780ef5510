//! Decodes points of gauges and sums: `{start_time=2, time=3, as_double=4, exemplars=5, as_int=6,
//! attributes=7, flags=8}`.

use sandur_protobuf::{Reader, Wire};

use super::Export;
use super::metric::{Family, PointHead, time};
use crate::error::Error;

impl<'a> Export<'a> {
    pub(super) fn number_point(&mut self, family: &Family, point: Reader<'a>) -> Result<(), Error> {
        let (mut head, mut value) = (PointHead::default(), 0.0);
        let mut fields = point;
        while let Some(key) = fields.key()? {
            match key {
                (2, Wire::Fixed64) => head.start_ms = time(&mut fields)?,
                (3, Wire::Fixed64) => head.time_ms = time(&mut fields)?,
                (4, Wire::Fixed64) => value = fields.double()?,
                (6, Wire::Fixed64) => value = fields.fixed64()? as i64 as f64,
                (8, Wire::Varint) => head.flags = fields.varint()?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        self.note_time(head.time_ms);
        let attributes = self.read_attributes(point, 7)?;
        let labels = self.labels(&family.name, &attributes);
        if self.begin_point(family, &labels, 0)? {
            self.point_sample(head, value)?;
            self.exemplars(point, 5)?;
            self.builder.end();
        }
        Ok(())
    }

    /// Adds a value of a point to the open series.
    pub(super) fn point_sample(&mut self, head: PointHead, value: f64) -> Result<(), Error> {
        if self.builder.sample(head.time_ms, head.bits(value), None)? && head.start_ms != 0 {
            self.builder.start(head.start_ms)?;
        }
        Ok(())
    }
}

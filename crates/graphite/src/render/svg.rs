//! `svg`: series as a picture.

use super::{Format, RenderRequest};
use crate::error::Result;
use crate::picture::{PictureOptions, draw};
use crate::series::Series;

pub(super) const FORMAT: Format =
    Format { name: "svg", content_type: "image/svg+xml", is_json: false, write };

fn write(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    let options = match &request.picture {
        Some(options) => options.clone(),
        None => PictureOptions::read(&[])?,
    };
    draw(&options, list, ((request.from.epoch, request.until.epoch), &request.zone), out)
}

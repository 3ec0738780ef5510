//! `svg` and `png`: series as an image.

use super::request::{Format, RenderRequest};
use crate::error::Result;
use crate::picture::{self, PictureOptions};
use crate::series::Series;

pub(super) const SVG: Format = Format {
    name: "svg",
    content_type: "image/svg+xml",
    is_json: false,
    bytes: super::request::with_name,
    write: write_svg,
};

pub(super) const PNG: Format = Format {
    name: "png",
    content_type: "image/png",
    is_json: false,
    bytes: super::request::with_name,
    write: write_png,
};

fn options(request: &RenderRequest) -> Result<PictureOptions> {
    request.picture.clone().map_or_else(|| PictureOptions::read(&[]), Ok)
}

fn write_svg(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    picture::svg(&options(request)?, list, (request.times(), &request.zone), out)
}

fn write_png(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    picture::png(&options(request)?, list, (request.times(), &request.zone), out)
}

//! Series as an image: axes, a grid, lines, areas and a legend, with the parameters of graphite-web that
//! dashboards and mails use.
//!
//! With `graphType=pie`, the image is a [`pie`]. [`options`] parses parameters, with defaults from
//! [`templates`] of colours. [`layout`] computes positions and draws on a [`canvas`], which is [`svg`] or a
//! [`bitmap`] that is encoded as [`png`]. [`legend`] draws the names below the graph, [`axes`] chooses the
//! labelled values and times, and [`font`] has the outlines of characters for bitmaps.
//!
//! **Invariants.** An image has at most [`options::PIXELS_MAX`] pixels. A line has at most as many points
//! as the image has columns, because series are consolidated before they are drawn.

mod axes;
mod bitmap;
mod canvas;
mod colors;
mod font;
mod layout;
mod legend;
mod lines;
pub(crate) mod options;
mod pie;
mod pie_options;
mod png;
mod svg;
mod templates;

pub(crate) use layout::{png, svg};
pub(crate) use options::PictureOptions;

//! Series as a picture: axes, a grid, lines, areas and a legend, with the parameters of graphite-web that
//! dashboards and mails use.
//!
//! A `graphType=pie` is a [`pie`] instead. [`options`] reads parameters over a [`templates`] of colours,
//! [`layout`] decides where everything is, and draws on a [`canvas`], which is [`svg`] or a [`bitmap`] that
//! becomes [`png`]. [`legend`] has the names below, [`axes`] chooses the values and times that are written
//! beside the axes, [`font`] has the outlines of the signs of a bitmap.
//!
//! **Invariants.** A picture has at most [`options::PIXELS_MAX`] pixels. A line has no more points than the
//! picture has columns: series are consolidated before they are drawn.

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
mod png;
mod svg;
mod templates;

pub(crate) use layout::{png, svg};
pub(crate) use options::PictureOptions;

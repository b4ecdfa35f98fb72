//! Reports: one HTML file that loads nothing else, in light and dark.
//!
//! [`page()`] puts a report's body into the common page. [`Svg`] draws shapes, [`Plot`] a plot with
//! two axes; [`scale`] maps values to places and [`labels`] finds room for texts. [`text`] makes
//! foreign texts safe, and [`stats`] has the figures that every report prints.
//!
//! Internal, no promise: this crate serves the programs of Baton.

pub mod labels;
mod page;
mod plot;
pub mod scale;
pub mod stats;
mod svg;
pub mod text;

pub use page::{Tile, page, tiles};
pub use plot::Plot;
pub use svg::{Anchor, Svg};

//! Reports: one HTML file that loads nothing else, in light and dark.
//!
//! [`page()`] puts a report's body into the common page. [`Plot`] is a plot with two axes, [`dots()`]
//! one of measured times; [`Svg`] draws any other picture. [`scale`] maps values to places,
//! [`labels`] finds room for texts and [`rows`] for bars. [`text`] makes foreign texts safe, and
//! [`stats`] has the figures that every report prints. [`check`] tests finished pages.
//!
//! Internal to Baton, no promise.

pub mod check;
mod dots;
pub mod labels;
mod page;
mod plot;
pub mod rows;
pub mod scale;
pub mod stats;
mod svg;
pub mod text;

pub use dots::{Times, dots};
pub use page::{page, tiles};
pub use plot::Plot;
pub use svg::{Anchor, Svg};

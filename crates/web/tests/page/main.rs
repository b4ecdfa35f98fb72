//! The page over real HTTP, beside a real server: who may ask, from where, what is shown, what
//! an action does, and what a client cannot do to others.

#![allow(clippy::unwrap_used)]

mod access;
mod actions;
mod errors;
mod limits;
mod origin;
mod readings;
mod support;
mod take;

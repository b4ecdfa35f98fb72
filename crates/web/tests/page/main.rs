//! The page over real HTTP, with a real Redis: who may ask, from which page, what the answers are,
//! what an action does, and what a client cannot do to others.

#![allow(clippy::unwrap_used)]

mod access;
mod actions;
mod events;
mod limits;
mod origin;
mod search;
mod support;
mod take;

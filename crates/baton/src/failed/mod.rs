//! Failed messages: taking all of them, or chosen ones.

pub(crate) mod drain;

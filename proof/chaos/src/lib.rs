//! Chaos: a real server, a fleet of real `baton` processes, and a plan of faults from a seed.
//!
//! The tour: [`plan`] draws faults from a seed; [`stage`] starts the server, the nodes and what
//! lies between them ([`proxy`], [`net`]); [`faults`] hurts them; [`run`] lets the fleet recover
//! after each fault and finish at the end; [`verdict`] holds the ledger, the logs and what the
//! drains printed against each other, and [`story`] tells a message that went wrong; [`lanes`]
//! and [`outcome`] keep it all in a [`record::Record`], from which [`report`] draws a page.

pub mod books;
pub mod dice;
pub mod eye;
pub mod faults;
pub mod history;
pub mod lanes;
pub mod net;
pub mod outcome;
pub mod plan;
pub mod points;
pub mod proxy;
pub mod report;
pub mod run;
pub mod show;
pub mod stage;
pub mod stop;
pub mod story;
pub mod verdict;

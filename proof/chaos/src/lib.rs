//! Chaos: real servers, a fleet of real `baton` processes, and a plan of faults from a seed. [`chaos_program`]
//! finds the `baton` that has crash points.
//!
//! The tour: [`plan`] draws faults from a seed. [`arena`] starts the server, the nodes and what
//! lies between them: a [`proxy`] for each node, or a network [`namespace`]. [`faults`] hurts them.
//! The [`topology`] says whether there is one server or a [`group`] of them.
//! The nodes get their messages from one of the [`sources`] and work with one of the [`handlers`], whose
//! processes a [`process_scan`] finds.
//! [`run`] lets the fleet recover after each fault, and finish at the end; an [`observer`] reads
//! the fleet meanwhile, and a [`ledger_check`] the ledger. [`verdict`] compares the ledger with the
//! logs and with what the drains printed, a [`row_check`] each text with its row, a [`failover_check`]
//! what nodes were told with what a group still has; a [`message_trace`] explains the first wrong message.
//! [`lives`] and [`outcome`] put all of it into a [`history`], from which [`report`] draws a page.
//! [`points`] lets a copy die at each crash point on purpose. [`csv_import`] is another run: a file whose
//! lines are imported while processes are killed.

pub mod arena;
pub mod chaos_program;
pub mod csv_import;
pub mod failover_check;
pub mod faults;
pub mod group;
pub mod handlers;
pub mod history;
pub mod ledger_check;
pub mod lives;
pub mod message_trace;
pub mod namespace;
pub mod observer;
pub mod outcome;
pub mod plan;
pub mod points;
pub mod process_scan;
pub mod progress;
pub mod proxy;
pub mod report;
pub mod rng;
pub mod rolling_upgrade;
pub mod row_check;
pub mod run;
pub mod sources;
pub mod stop;
pub mod topology;
pub mod verdict;

//! The commands as people type them: real processes on a real server, failed messages that
//! are put there by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../shared/mod.rs"]
mod shared;

mod acl;
mod bad_input;
mod bench;
mod bench_cluster;
mod clean;
mod cluster;
mod cron;
mod doctor;
mod doctor_places;
mod document_output;
mod document_reference;
mod document_runs;
mod document_translations;
mod documents;
mod durability;
mod embedded;
mod errors;
mod eviction;
mod exec;
mod flags;
mod full_memory;
mod get_errors;
mod get_errors_output;
mod handlers_document;
mod health;
mod log;
mod lost_messages;
mod node;
mod old_spellings;
mod outputs;
mod partitions;
mod partitions_away;
mod passwords;
mod pause;
mod push;
mod seeder;
mod sentinel;
mod service_manager;
mod settle;
mod source;
mod sources_document;
mod status;
mod support;
mod tls;
mod unix_socket;
mod user_and_database;
mod viewers;
mod views;

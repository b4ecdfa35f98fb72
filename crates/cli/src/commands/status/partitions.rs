//! The table of the partitions.

use baton::inspect::PartitionSnapshot;

use super::table::{aligned, cell};

/// The columns of the table.
const COLUMNS: [&str; 10] = [
    "partition",
    "published",
    "done",
    "failed",
    "pending",
    "claimed",
    "delayed",
    "errors",
    "books",
    "server",
];

/// One row for each partition.
pub(super) fn table(partitions: &[PartitionSnapshot]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(partitions.iter().map(row));
    aligned(&rows)
}

/// A partition; a dash stands for what could not be read.
fn row(partition: &PartitionSnapshot) -> [String; COLUMNS.len()] {
    let is_read = partition.trouble.is_none();
    let count = |count: u64| match is_read {
        true => count.to_string(),
        false => "-".to_owned(),
    };
    let books = match (is_read, partition.balanced) {
        (false, _) => "unread",
        (true, true) => "balanced",
        (true, false) => "NOT BALANCED",
    };
    let server = match partition.server.as_str() {
        "" => "-".to_owned(),
        server => cell(server),
    };
    [
        partition.partition.to_string(),
        count(partition.published),
        count(partition.done),
        count(partition.failed),
        count(partition.pending),
        count(partition.claimed),
        count(partition.delayed),
        count(partition.errors),
        books.to_owned(),
        server,
    ]
}

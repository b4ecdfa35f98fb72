//! The metrics of each partition, of a fleet that has several.

use baton::inspect::{PartitionSnapshot, Snapshot};

use super::exposition::{Exposition, labels};

/// A metric: its name, what it says, its value.
type Metric = (&'static str, &'static str, fn(&PartitionSnapshot) -> u64);

const COUNTERS: [Metric; 3] = [
    (
        "baton_partition_published_total",
        "Messages published in the partition.",
        |one| one.published,
    ),
    (
        "baton_partition_done_total",
        "Messages of the partition that ended as done.",
        |one| one.done,
    ),
    (
        "baton_partition_failed_total",
        "Messages of the partition that ended as failed.",
        |one| one.failed,
    ),
];

const GAUGES: [Metric; 6] = [
    (
        "baton_partition_pending",
        "Messages of the partition that wait.",
        |one| one.pending,
    ),
    (
        "baton_partition_claimed",
        "Messages of the partition claimed by workers.",
        |one| one.claimed,
    ),
    (
        "baton_partition_delayed",
        "Messages of the partition that wait for their next attempt.",
        |one| one.delayed,
    ),
    (
        "baton_partition_failed_messages",
        "Failed messages in the errors store of the partition, waiting to be taken.",
        |one| one.errors,
    ),
    (
        "baton_partition_void",
        "Messages of the partition that Redis acknowledged, then forgot.",
        |one| one.void,
    ),
    (
        "baton_partition_books_balanced",
        "1 if the books of the partition balance.",
        |one| u64::from(one.balanced),
    ),
];

/// Writes the partitions. Of one that could not be read it writes only that.
pub(super) fn write(out: &mut Exposition, snapshot: &Snapshot) {
    if snapshot.partitions.is_empty() {
        return;
    }
    let labelled = |one: &PartitionSnapshot| {
        let partition = one.partition.to_string();
        labels(&[("fleet", &snapshot.fleet), ("partition", &partition)])
    };
    let all = snapshot.partitions.iter();
    out.gauge(
        "baton_partition_up",
        "1 if the latest attempt to read the partition succeeded.",
        all.map(|one| (labelled(one), u8::from(one.trouble.is_none()))),
    );
    let read: Vec<(String, &PartitionSnapshot)> = snapshot
        .partitions
        .iter()
        .filter(|one| one.trouble.is_none())
        .map(|one| (labelled(one), one))
        .collect();
    if read.is_empty() {
        return;
    }
    for (name, help, value) in COUNTERS {
        out.counter(
            name,
            help,
            read.iter().map(|(labels, one)| (labels, value(one))),
        );
    }
    for (name, help, value) in GAUGES {
        out.gauge(
            name,
            help,
            read.iter().map(|(labels, one)| (labels, value(one))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_that_was_read_has_its_series() {
        let mut snapshot = Snapshot::default();
        snapshot.fleet = "f".to_owned();
        let mut out = Exposition::default();
        write(&mut out, &snapshot);
        assert_eq!(out.text, "");
        snapshot.partitions = (0..2)
            .map(|index| {
                let mut partition = PartitionSnapshot::default();
                partition.partition = index;
                partition.pending = 7;
                partition.trouble = (index == 1).then(|| "refused".to_owned());
                partition
            })
            .collect();
        write(&mut out, &snapshot);
        let lines: Vec<&str> = out
            .text
            .lines()
            .filter(|line| line.starts_with("baton_partition_up") || line.contains("_pending{"))
            .collect();
        assert_eq!(
            lines,
            [
                "baton_partition_up{fleet=\"f\",partition=\"0\"} 1",
                "baton_partition_up{fleet=\"f\",partition=\"1\"} 0",
                "baton_partition_pending{fleet=\"f\",partition=\"0\"} 7",
            ]
        );
    }
}

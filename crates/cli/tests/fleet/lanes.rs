//! Nodes with very many lanes.

use baton_processes::Info;

use crate::support::{fleet_of, redis, server, status, wait_status, workers};

/// Bytes that the server may send for all of it. If every lane were sent its pack, these would be
/// some sixty megabytes for the first claims alone.
const MAX_SENT: f64 = 30e6;

#[test]
fn a_thousand_lanes_are_sent_each_pack_once_and_leave_nothing_behind() {
    let server = server();
    let args = "--interval 0 --max-pending 5000 --error-rate 0 --work 20ms --concurrency 1000";
    let mut fleet = fleet_of(2, &server, args);
    wait_status(&server, "messages", |status| status.done >= 10_000);
    let mut redis = redis(&server);
    let info = Info::read(&mut redis, "stats").unwrap();
    let sent = info.number("total_net_output_bytes").unwrap();
    assert!(sent < MAX_SENT, "{sent} bytes");

    let worker = workers(&fleet)[0];
    fleet.terminate(worker).unwrap();
    assert_eq!(fleet.wait(worker).unwrap(), Some(0));
    let held: u64 = redis::cmd("HLEN")
        .arg("baton:{default:0}:claims")
        .query(&mut redis)
        .unwrap();
    assert_eq!(held, 0, "claims are left");
    let status = status(&server);
    assert_eq!((status.failed, status.balanced), (0, true), "{status:?}");
}

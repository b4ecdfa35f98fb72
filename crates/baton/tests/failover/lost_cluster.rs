//! A cluster that is gone is not flooded by the partitions of a fleet.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton::Target;
use baton_protocol::Partitions;

use crate::cluster::cluster;
use crate::fleet::{PAUSE, name, until};

const PARTITIONS: u32 = 64;
/// How long attempts are counted.
const COUNTED: Duration = Duration::from_secs(1);
/// One partition asks for all, 20 times a second, and some attempts are two connections. Without that,
/// 64 partitions made some 2,000.
const MAX_ATTEMPTS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_gone_gets_as_many_attempts_from_64_partitions_as_from_few() {
    let mut cluster = cluster(1, 0);
    let target = Target::parse(&cluster.url()).unwrap();
    let opened = Partitions::open(&target, &name(), "n", Some(PARTITIONS), |_| {}).await;
    let (partitions, _rings) = opened.unwrap();
    let port = cluster.servers[0].port().unwrap();
    cluster.servers[0].kill9();
    // In the place of the server: it counts who comes, and sends them away.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let attempts: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&attempts);
    std::thread::spawn(move || {
        while listener.accept().is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let so_far = || attempts.load(Ordering::Relaxed);
    until("the partitions try", || so_far() > 0).await;
    let (before, began) = (so_far(), Instant::now());
    while began.elapsed() < COUNTED {
        tokio::time::sleep(PAUSE).await;
    }
    let counted = so_far() - before;
    assert!(counted <= MAX_ATTEMPTS, "{counted} attempts");
    assert!(counted > 0, "it goes on trying");
    drop(partitions);
}

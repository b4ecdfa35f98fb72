//! `baton bench` on a cluster: it counts, measures and audits on all masters.

use baton::Target;
use baton_bench::FleetProbe;
use baton_server::{ClusterGroup, PrivateServer};
use serde_json::Value;

use crate::support::{Ended, baton, redis, run};

const MASTERS: usize = 3;

fn cluster() -> ClusterGroup {
    ClusterGroup::start(&PrivateServer::builder(), MASTERS, 0).unwrap()
}

fn bench(cluster: &ClusterGroup, args: &[&str]) -> Ended {
    let ended = run(baton(
        &[&["bench", "--redis", &cluster.url()], args].concat(),
    ));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for server in &cluster.servers {
        let left: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query(&mut redis(server))
            .unwrap();
        assert_eq!(left, Vec::<String>::new());
    }
    ended
}

/// The rest of the line that begins with these words.
#[track_caller]
fn line<'a>(ended: &'a Ended, what: &str) -> &'a str {
    let mut lines = ended.lines().into_iter().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(what))
        .unwrap_or_else(|| panic!("no {what:?}: {ended:#?}"))
        .trim()
}

#[test]
fn a_bench_on_a_cluster_audits_every_message_of_all_partitions_once() {
    let cluster = cluster();
    let ended = bench(&cluster, &["--messages", "20000", "--kill", "1"]);
    let server = line(&ended, "server");
    assert!(server.ends_with("3 masters, partitions: 16"), "{server}");
    assert_eq!(line(&ended, "killed with -9, and replaced"), "1");
    let floor = line(&ended, "an unsafe queue's messages/s");
    assert!(floor.starts_with("not measured: "), "{floor}");
    // "clean: 19,000 done + 1,000 failed, each exactly once"
    let audit = line(&ended, "audit").replace(',', "");
    let words: Vec<&str> = audit.split(' ').collect();
    let ["clean:", done, "done", "+", failed, "failed", ..] = words[..] else {
        panic!("{audit}");
    };
    let count = |text: &str| text.parse::<u64>().unwrap();
    assert_eq!(count(done) + count(failed), 20_000);

    let ended = bench(&cluster, &["--messages", "5000", "--json"]);
    let figures: Value = serde_json::from_str(ended.lines().last().unwrap()).unwrap();
    assert_eq!(figures["servers"], MASTERS);
    assert_eq!(figures["partitions"], 16);
    assert_eq!(figures["lost"], 0);
    assert_eq!(figures["duplicated"], 0);
    assert_eq!(figures["clean"], true);
    assert!(figures["redis_cpu_us"].as_f64().unwrap() > 0.0, "{figures}");
    assert_eq!(figures["floor_rate"], Value::Null);
    assert_eq!(figures["ratio"], Value::Null);
}

#[test]
fn the_memory_of_all_masters_is_summed_up() {
    const BYTES: u64 = 8 << 20;
    let cluster = cluster();
    let mut probe = FleetProbe::open(&Target::parse(&cluster.url()).unwrap()).unwrap();
    assert_eq!(probe.servers().len(), MASTERS);
    let mut used = vec![probe.memory().unwrap().used];
    for (master, server) in cluster.servers.iter().enumerate() {
        let has = |key: &String| cluster.owner(cluster.slot(key).unwrap()).unwrap() == master;
        let key = (0..).map(|n| format!("key-{n}")).find(has).unwrap();
        let mut command = redis::cmd("SETRANGE");
        command.arg(key).arg(BYTES - 1).arg("x");
        command.exec(&mut redis(server)).unwrap();
        used.push(probe.memory().unwrap().used);
    }
    for pair in used.windows(2) {
        assert!(pair[1] >= pair[0] + BYTES / 2, "{used:?}");
    }
}

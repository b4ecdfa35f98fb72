//! A thousand nodes and 64 partitions over three masters: what the masters have to do while nothing happens, and
//! what a message costs them that wakes one node. Each node is a process, and its source waits for a word.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::FleetName;
use baton_figures::TIMEOUT;
use baton_processes::{Fleet, process_cpu_us};
use baton_report::stats::Spread;

use super::idle::watch;
use super::server_group::ServerGroup;
use super::{MASTERS, NODES, TEXT_BYTES};
use crate::Rounds;
use crate::choice::Choice;
use crate::idle::rss_mb;
use crate::report::Report;
use crate::thousand::{affordable, raise_file_limit};

const PARTITIONS: u32 = 64;
/// How many nodes start at a time.
const BATCH: usize = 25;
/// How long the fleet rests before it is watched: each lane looks at partitions that did not ring, too.
const SETTLE: Duration = Duration::from_secs(3);
/// Time between two messages: the node that handled the last one is idle again.
const INTERVAL: Duration = Duration::from_millis(50);
/// Messages before the first that counts: they bring the scripts to the servers.
const WARM_UP: u64 = 10;
/// Between two looks at how many messages have ended.
const PAUSE: Duration = Duration::from_millis(20);
/// So many of the most frequent commands are named.
const NAMED: usize = 6;

/// Some rows for each server: few nodes to compare with, then the crowd.
pub(crate) fn of_a_thousand_nodes(
    program: &Path,
    rounds: Rounds,
    choice: &Choice,
    report: &mut Report,
) -> Result<()> {
    raise_file_limit()?;
    let count = rounds.crowd.min(affordable()?);
    if count < rounds.crowd {
        let what = format!("memory for {} nodes is not there", rounds.crowd);
        report.tell(&what, &format!("measured with {count}"));
    }
    let mut servers = choice.servers()?;
    if !rounds.whole_crowd {
        // The last one is the newest Valkey.
        servers.drain(..servers.len().saturating_sub(1));
    }
    let few = rounds.whole_crowd.then_some(NODES);
    for server in servers {
        for nodes in few.into_iter().chain([count]) {
            let group = ServerGroup::cluster(&server, MASTERS)?;
            Crowd::start(program, group, nodes, report)?.measure(rounds, report)?;
        }
    }
    Ok(())
}

/// A fleet that does nothing until its generator is told to begin. The nodes end before their servers: a
/// thousand nodes that look for lost servers would take all cores.
struct Crowd {
    fleet: Fleet,
    group: ServerGroup,
    name: FleetName,
    nodes: usize,
}

impl Crowd {
    fn start(
        program: &Path,
        mut group: ServerGroup,
        nodes: usize,
        report: &mut Report,
    ) -> Result<Self> {
        let head = format!(
            "{}, {MASTERS} masters, P = {PARTITIONS}, {nodes} nodes",
            group.version()?
        );
        let empty = group.memory()?;
        let name = FleetName::new("crowd")?;
        let args = [
            ("--fleet", name.to_string()),
            ("--log", "json".to_owned()),
            ("--partitions", PARTITIONS.to_string()),
            ("--interval", format!("{}ms", INTERVAL.as_millis())),
            ("--missed", "skip".to_owned()),
            ("--size", TEXT_BYTES.to_string()),
        ];
        let args = args.map(|(flag, value)| [flag.to_owned(), value]);
        let args = [vec!["bench-node".to_owned()], args.concat()].concat();
        let env = [("REDIS_URL".to_owned(), group.url())];
        let mut fleet = Fleet::of(program, args).with_env(&env);
        let began = Instant::now();
        while fleet.alive().len() < nodes {
            let batch = BATCH.min(nodes - fleet.alive().len());
            fleet.start_many(batch, TIMEOUT)?;
        }
        let took = began.elapsed().as_secs_f64();
        report.tell(&head, &format!("started in {took:.0} s"));
        std::thread::sleep(SETTLE);
        let grown = group.memory()?.into_iter().zip(empty);
        let megabytes = grown.map(|(now, empty)| {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            format!("{:.1} ({:.1})", mb(now), mb(empty))
        });
        let megabytes: Vec<String> = megabytes.collect();
        report.tell(
            "  memory of each master (before the nodes), MB",
            &megabytes.join(", "),
        );
        Ok(Self {
            group,
            fleet,
            name,
            nodes,
        })
    }

    fn measure(mut self, rounds: Rounds, report: &mut Report) -> Result<()> {
        let most = 2 * self.nodes as u64 + 10;
        let clients = self.group.clients()?;
        let measured: Vec<String> = clients.iter().map(u64::to_string).collect();
        report.add(
            "  connections to each master",
            &measured.join(", "),
            &format!("≤ {most}"),
            clients.iter().all(|clients| *clients <= most),
        );
        self.tell_node_memory(report)?;

        let window = Duration::from_secs(rounds.seconds);
        let (began, masters, nodes) = (Instant::now(), self.group.cpu_us()?, self.cpu_us()?);
        std::thread::sleep(window);
        let idle_us = (self.group.cpu_us()? - masters) / began.elapsed().as_secs_f64();
        let nodes_us = (self.cpu_us()? - nodes) / began.elapsed().as_secs_f64();
        let percent = |us: f64| format!("{:.1} % of a core", us / 1e4);
        report.tell("  CPU of all masters while idle", &percent(idle_us));
        report.tell("  CPU of all nodes while idle", &percent(nodes_us));
        self.tell_commands("idle", window, report)?;

        let (masters, nodes) = self.wake(window, (idle_us, nodes_us))?;
        for (who, used_us) in [("masters", masters), ("nodes", nodes)] {
            let what = format!("  CPU of all {who} for a message that wakes a node");
            report.tell(&what, &format!("{used_us:.0} µs"));
        }
        let what = format!("a message every {} ms", INTERVAL.as_millis());
        self.tell_commands(&what, window, report)
    }

    /// Processor time of all nodes so far, in µs.
    fn cpu_us(&self) -> Result<f64> {
        let copies = self.fleet.alive().into_iter();
        let cpu = |copy| process_cpu_us(self.fleet.pid(copy)).context("no processor time");
        copies.map(cpu).sum()
    }

    fn tell_node_memory(&self, report: &mut Report) -> Result<()> {
        let copies = self.fleet.alive().into_iter();
        let megabytes = copies.map(|copy| rss_mb(self.fleet.pid(copy)));
        let megabytes: Vec<f64> = megabytes.collect::<Result<_>>()?;
        let spread = Spread::of(megabytes).context("no node")?;
        report.tell(
            "  resident memory of a node (least to most)",
            &format!(
                "{:.1} MB ({:.1}–{:.1})",
                spread.median, spread.min, spread.max
            ),
        );
        Ok(())
    }

    fn tell_commands(&self, when: &str, window: Duration, report: &mut Report) -> Result<()> {
        // MONITOR costs the masters time, so their CPU is not measured meanwhile.
        let commands = watch(self.group.servers(), window)?;
        let per_second = |count: u64| format!("{:.0} /s", count as f64 / window.as_secs_f64());
        let sent = per_second(commands.by_clients.values().sum());
        report.tell(&format!("  commands to all masters, {when}"), &sent);
        let by_scripts = per_second(commands.by_scripts);
        report.tell(
            &format!("  commands inside of scripts, {when}"),
            &by_scripts,
        );
        for (name, count) in commands.most_frequent(NAMED) {
            report.tell(&format!("    {name}"), &per_second(count));
        }
        Ok(())
    }

    /// Lets the generator make a message every so often. Returns what each of them cost all masters and all
    /// nodes, in µs: publish, wake-up, claim and commit, without what they use in a second while idle.
    fn wake(&mut self, window: Duration, idle_us: (f64, f64)) -> Result<(f64, f64)> {
        let generator = self.fleet.wait_generator(TIMEOUT)?;
        self.fleet.say(generator, "go")?;
        let before = self.wait_ended(WARM_UP)?;
        let (began, masters, nodes) = (Instant::now(), self.group.cpu_us()?, self.cpu_us()?);
        std::thread::sleep(window);
        let (masters, nodes) = (self.group.cpu_us()? - masters, self.cpu_us()? - nodes);
        let seconds = began.elapsed().as_secs_f64();
        let messages = (self.wait_ended(before + 1)? - before) as f64;
        let each = |used_us: f64, idle_us: f64| (used_us - idle_us * seconds) / messages;
        Ok((each(masters, idle_us.0), each(nodes, idle_us.1)))
    }

    /// Waits until so many messages have ended. Returns how many have.
    fn wait_ended(&mut self, wanted: u64) -> Result<u64> {
        let shards = self.group.shards(&self.name, PARTITIONS)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let (_, ended) = self.group.sums(&shards)?;
            if ended >= wanted {
                return Ok(ended);
            }
            ensure!(Instant::now() < deadline, "{ended} of {wanted} ended");
            std::thread::sleep(PAUSE);
        }
    }
}

//! A fleet at full speed, and the processor time that it took of the servers and of its nodes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::{FleetName, Target};
use baton_bench::Shards;
use baton_figures::{TIMEOUT, runtime};
use baton_processes::{Fleet, process_cpu_us};
use baton_protocol::{Ledger, Partitions, audit};

use super::TEXT_BYTES;
use super::server_group::ServerGroup;

/// Share of messages that the handler rejects, as in `baton bench`.
const ERROR_RATE: &str = "0.05";
/// Shortest and longest pause between two looks at a run. They are few, so that they cost the servers
/// nothing that counts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// What a fleet has to do.
#[derive(Clone, Copy)]
pub(super) struct BenchFleet<'a> {
    /// The `baton` program.
    pub(super) program: &'a Path,
    pub(super) partitions: u32,
    pub(super) messages: u64,
    /// A fleet without workers only publishes.
    pub(super) workers: usize,
}

/// What a run took.
#[derive(Clone, Copy)]
pub(super) struct Used {
    /// From the word *go* to the end of the last message; without workers, to the last publish.
    pub(super) per_second: f64,
    /// Processor time of all servers for a message, in µs.
    pub(super) redis_us: f64,
    /// Processor time of the generator for a message, in µs.
    pub(super) generator_us: f64,
    /// Processor time of all nodes for a message, in µs.
    pub(super) client_us: f64,
}

impl BenchFleet<'_> {
    /// Runs it once on servers without data, and audits it.
    pub(super) fn run(self, group: &mut ServerGroup) -> Result<Used> {
        let name = FleetName::new(&format!("bench-{}", baton_protocol::new_name()))?;
        let shards = group.shards(&name, self.partitions)?;
        let mut fleet = self.fleet(&name, &group.url());
        let copies = self.workers + 1;
        fleet.start_many(copies, TIMEOUT)?;
        let generator = fleet.wait_generator(TIMEOUT)?;

        let cpu = |copy| process_cpu_us(fleet.pid(copy)).context("no processor time");
        let clients = || (0..copies).map(cpu).sum::<Result<f64>>();
        let (redis, client, own) = (group.cpu_us()?, clients()?, cpu(generator)?);
        let began = Instant::now();
        for copy in 0..copies {
            fleet.say(copy, "go")?;
        }
        self.wait(group, &shards, began)?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = |copy| process_cpu_us(fleet.pid(copy)).context("no processor time");
        let clients = || (0..copies).map(cpu).sum::<Result<f64>>();
        let messages = self.messages as f64;
        let used = Used {
            per_second: messages / seconds,
            redis_us: (group.cpu_us()? - redis) / messages,
            generator_us: (cpu(generator)? - own) / messages,
            client_us: (clients()? - client) / messages,
        };
        drop(fleet);
        if self.workers > 0 {
            self.audit(&name, &group.url())?;
        }
        group.clear()?;
        Ok(used)
    }

    fn fleet(self, name: &FleetName, url: &str) -> Fleet {
        let mut args = vec!["bench-node".to_owned()];
        for (flag, value) in [
            ("--fleet", name.to_string()),
            ("--interval", "0".to_owned()),
            ("--log", "json".to_owned()),
            ("--messages", self.messages.to_string()),
            ("--size", TEXT_BYTES.to_string()),
            ("--error-rate", ERROR_RATE.to_owned()),
            ("--partitions", self.partitions.to_string()),
        ] {
            args.extend([flag.to_owned(), value]);
        }
        if self.workers == 0 {
            // Nothing ends, and the first partition that has its share of this stops the generator.
            let max_pending = self.messages * u64::from(self.partitions);
            args.extend(["--max-pending".to_owned(), max_pending.to_string()]);
        }
        let env = [("REDIS_URL".to_owned(), url.to_owned())];
        Fleet::of(self.program, args).with_env(&env)
    }

    /// Waits until all messages have ended; without workers, until all are published.
    fn wait(self, group: &mut ServerGroup, shards: &Shards, began: Instant) -> Result<()> {
        let mut moved = (Instant::now(), 0);
        loop {
            let (published, ended) = group.sums(shards)?;
            let done = if self.workers > 0 { ended } else { published };
            if done >= self.messages {
                return Ok(());
            }
            if published + ended != moved.1 {
                moved = (Instant::now(), published + ended);
            }
            ensure!(
                moved.0.elapsed() < TIMEOUT,
                "nothing has moved for {TIMEOUT:?}: {published} published, {ended} of {} ended",
                self.messages
            );
            // Half of the expected rest.
            let rest = (self.messages - done) as f64 / done.max(1) as f64;
            let pause = began.elapsed().as_secs_f64() * rest.min(1.0) / 2.0;
            std::thread::sleep(Duration::from_secs_f64(pause).clamp(PAUSE.0, PAUSE.1));
        }
    }

    /// A run that lost or doubled a message has no figure.
    fn audit(self, name: &FleetName, url: &str) -> Result<()> {
        let target = Target::parse(url)?;
        let audit = runtime()?.block_on(async {
            let partitions = Partitions::view(&target, name).await?;
            let ledgers = Ledger::read_all(&partitions).await?;
            audit::audit_all(&partitions, &ledgers).await
        })?;
        let findings = &audit.findings;
        ensure!(
            findings.is_empty(),
            "{} partitions: {findings:?}",
            self.partitions
        );
        let ended = audit.done + audit.failed;
        ensure!(ended == self.messages, "{ended} of {} ended", self.messages);
        Ok(())
    }
}

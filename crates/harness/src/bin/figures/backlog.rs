//! What a long queue costs: processor time per claim and commit, and memory per message.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use baton::protocol::{
    Claim, ClaimCall, Commit, Outcomes, Publish, PublishCall, Seal, Slot, Store,
};
use baton::{Effects, FleetName, PackBuilder, Target, new_name};
use baton_server::PrivateServer;

use crate::info::Info;
use crate::report::{Report, quartiles};
use crate::{Rounds, server};

const TEXT: [u8; 64] = [b'x'; 64];
const EPOCH: u64 = 1;
/// Most messages and bytes of a pack: the same as the generator's.
const PACK: (u64, usize) = (500, 256 << 10);
/// A pack that fits the allocator's size class of 32 KiB; one of 500 such texts takes 40 KiB.
const SNUG_PACK: (u64, usize) = (500, 32_700);
/// Packs that are claimed and committed between two looks at the clock. Half of them are above
/// the level and half below, so that even the shortest queue is as long as it says on average.
const GROUP: u64 = 10;
/// The shortest queue; each next one is ten times as long.
const SHORTEST: u64 = 10_000;
/// From here on filling takes long enough to tell how far it is.
const SLOW_FILL: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn cost(_: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        processor(rounds, report).await?;
        // By itself, so that only one of the longest queues is there at a time.
        let snug = Backlog::fill(rounds.backlog, SNUG_PACK).await?;
        report.tell(&snug.memory_words(), &format!("{:.3} ×", snug.memory));
        Ok(())
    })
}

/// Takes the levels in turns, so that whatever else the machine does hits all of them.
async fn processor(rounds: Rounds, report: &mut Report) -> Result<()> {
    let levels = std::iter::successors(Some(SHORTEST), |level| Some(level * 10));
    let mut backlogs = Vec::new();
    for level in levels.take_while(|level| *level <= rounds.backlog) {
        backlogs.push(Backlog::fill(level, PACK).await?);
    }
    let mut costs = vec![Vec::new(); backlogs.len()];
    for round in 0..rounds.groups {
        let mut order: Vec<usize> = (0..backlogs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for level in order {
            costs[level].push(backlogs[level].group().await?);
        }
    }

    for (backlog, costs) in backlogs.iter().zip(&costs) {
        let [low, median, high] = quartiles(costs);
        report.tell(
            &format!("{} pending: Redis CPU per claim+commit", backlog.level),
            &format!("{median:.0} µs ({low:.0}–{high:.0} µs)"),
        );
        let of_one = 1000.0 * median / backlog.count as f64;
        report.tell("  of a message", &format!("{of_one:.0} ns"));
    }
    let (Some(long), Some(shortest), Some(longest)) =
        (backlogs.last(), costs.first(), costs.last())
    else {
        return Ok(());
    };
    let ratio = quartiles(longest)[1] / quartiles(shortest)[1];
    let pairs: Vec<f64> = longest.iter().zip(shortest).map(|(a, b)| a / b).collect();
    let [low, _, high] = quartiles(&pairs);
    report.add(
        &format!("{} pending ÷ {SHORTEST} pending: the same", long.level),
        &format!("{ratio:.3} ({low:.2}–{high:.2})"),
        "≤ 1.10",
        ratio <= 1.1,
    );
    report.add(
        &long.memory_words(),
        &format!("{:.3} ×", long.memory),
        "≤ 1.3",
        long.memory <= 1.3,
    );
    Ok(())
}

/// A server of its own with so many messages pending.
struct Backlog {
    level: u64,
    /// How much `used_memory` grew while it was filled, in sizes of the texts.
    memory: f64,
    allocator: String,
    redis: redis::Connection,
    store: Store,
    slot: Slot,
    /// The number of the last claim.
    claims: u64,
    /// The last sequence number.
    last: u64,
    /// Every pack, and how many messages it has.
    pack: Vec<u8>,
    count: u64,
    // Behind the connections to it: fields are dropped in order.
    _server: PrivateServer,
}

impl Backlog {
    async fn fill(level: u64, (most, most_bytes): (u64, usize)) -> Result<Self> {
        let server = server()?;
        pin(&server);
        let mut redis = redis::Client::open(server.url())?.get_connection()?;
        let (target, fleet) = (Target::parse(&server.url())?, FleetName::new("backlog")?);
        let store = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
        let sealed = store.seal(EPOCH).await?;
        ensure!(matches!(sealed, Seal::Sealed { .. }), "{sealed:?}");
        let mut builder = PackBuilder::default();
        while builder.count() < most && builder.bytes() < most_bytes {
            builder.push(&TEXT);
        }
        let before = Info::read(&mut redis, "memory")?;
        let mut backlog = Self {
            level,
            memory: 0.0,
            allocator: before.text("mem_allocator")?.to_owned(),
            redis,
            slot: Slot::new(store.node(), 0),
            store,
            claims: 0,
            last: 0,
            pack: builder.finish(0),
            count: builder.count(),
            _server: server,
        };
        for tenth in 1..=10 {
            let packs = (level * tenth / 10).saturating_sub(backlog.last) / backlog.count;
            backlog.publish(packs).await?;
            if level >= SLOW_FILL {
                eprintln!("backlog: {} of {level} published", backlog.last);
            }
        }
        let after = Info::read(&mut backlog.redis, "memory")?;
        let grown = after.number("used_memory")? - before.number("used_memory")?;
        backlog.memory = grown / (backlog.last * TEXT.len() as u64) as f64;
        backlog.publish(GROUP / 2).await?;
        Ok(backlog)
    }

    /// What the memory figure is about. The allocator matters: one with few size classes
    /// rounds a pack up.
    fn memory_words(&self) -> String {
        let (level, count, allocator) = (self.level, self.count, &self.allocator);
        format!("{level} pending, packs of {count}, {allocator}: memory ÷ texts")
    }

    async fn publish(&mut self, packs: u64) -> Result<()> {
        for _ in 0..packs {
            let call = PublishCall {
                epoch: EPOCH,
                first: self.last + 1,
                count: self.count,
                cursor_ms: 0,
                max_pending: u64::MAX,
                digest: None,
                pack: &self.pack,
            };
            let answer = self.store.publish(call).await?;
            ensure!(answer == Publish::Ok, "{answer:?}");
            self.last += self.count;
        }
        Ok(())
    }

    /// Claims and commits packs, as a fast worker does.
    async fn consume(&mut self, packs: u64) -> Result<()> {
        let effects = Effects::default();
        for _ in 0..packs {
            self.claims += 1;
            let call = ClaimCall {
                slot: &self.slot,
                number: self.claims,
                want: self.count,
                ttl: PATIENCE,
                have: None,
            };
            let Claim::Claimed { range, .. } = self.store.claim(call).await? else {
                bail!("nothing was claimed");
            };
            let outcomes = Outcomes {
                first: range.first,
                last: range.last,
                failed: &[],
                effects: &effects,
                max_errors: 1,
                digest: None,
            };
            let answer = self.store.commit(&self.slot, self.claims, outcomes).await?;
            ensure!(answer == Commit::Done, "{answer:?}");
        }
        Ok(())
    }

    /// Microseconds of the server's main thread per claim and commit. What was taken is
    /// published again afterwards.
    async fn group(&mut self) -> Result<f64> {
        // Two looks in a row tell what a look itself costs.
        let look = self.cpu_us()?;
        let began = self.cpu_us()?;
        self.consume(GROUP).await?;
        let ended = self.cpu_us()?;
        self.publish(GROUP).await?;
        Ok((ended - began - (began - look)) / GROUP as f64)
    }

    fn cpu_us(&mut self) -> Result<f64> {
        let cpu = Info::read(&mut self.redis, "cpu")?;
        let user = cpu.number("used_cpu_user_main_thread")?;
        let system = cpu.number("used_cpu_sys_main_thread")?;
        Ok((user + system) * 1e6)
    }
}

/// Keeps the servers on one and the same core: where two differ, their figures differ by more
/// than what is measured here. Without `taskset` the figures are only noisier.
fn pin(server: &PrivateServer) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let core = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(|list| list.trim().split(['-', ',']).next());
    if let (Some(core), Some(pid)) = (core, server.pid()) {
        let _ = Command::new("taskset")
            .args(["-a", "-p", "-c", core, &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

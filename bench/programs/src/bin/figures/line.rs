//! One slot and one generator in this process, for what single calls cost the server.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use baton::{Effects, FleetName, Target};
use baton_processes::redis_cpu_us;
use baton_protocol::{
    Claim, ClaimCall, ClaimedPack, Commit, CommitCall, PackBuilder, PublishCall, Seal, Slot, Store,
    new_name,
};
use baton_server::PrivateServer;

const EPOCH: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// Publishes, claims and commits packs that are all the same, on a server of its own.
pub(crate) struct Line {
    pub(crate) redis: redis::Connection,
    store: Store,
    slot: Slot,
    /// The number of the last claim.
    claims: u64,
    /// The last sequence number.
    last: u64,
    pack: Vec<u8>,
    count: u64,
    // Behind the connections to it: fields are dropped in order.
    _server: PrivateServer,
}

impl Line {
    /// A line whose packs repeat one text until they are full.
    pub(crate) async fn new(
        server: PrivateServer,
        is_full: impl Fn(&PackBuilder) -> bool,
        text: &[u8],
    ) -> Result<Self> {
        pin(&server);
        let redis = redis::Client::open(server.url())?.get_connection()?;
        let (target, fleet) = (Target::parse(&server.url())?, FleetName::new("line")?);
        let store = Store::open(&target, &fleet, &new_name(), |_| {}).await?;
        let sealed = store.seal(EPOCH).await?;
        ensure!(matches!(sealed, Seal::Sealed { .. }), "{sealed:?}");
        let mut builder = PackBuilder::default();
        while builder.count() == 0 || !is_full(&builder) {
            builder.push(text);
        }
        // A finished builder is empty.
        let count = builder.count();
        Ok(Self {
            redis,
            slot: Slot::new(store.node(), 0),
            store,
            claims: 0,
            last: 0,
            pack: builder.finish(0, "0123456789", 1),
            count,
            _server: server,
        })
    }

    /// The last sequence number.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// How many messages every pack has.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) async fn publish(&mut self, packs: u64) -> Result<()> {
        for _ in 0..packs {
            let call = PublishCall {
                stage: self.store.new_stage(),
                is_staged: false,
                claim_ttl: Duration::from_secs(5),
                epoch: EPOCH,
                first: self.last + 1,
                count: self.count,
                cursor: b"",
                made: None,
                max_pending: u64::MAX,
                digest: None,
                pack: &self.pack,
            };
            let answer = self.store.publish(call).await?;
            ensure!(answer.is_written(), "{answer:?}");
            self.last += self.count;
        }
        Ok(())
    }

    /// Claims and commits packs, as a fast worker does; `failed` are the error records of each.
    pub(crate) async fn consume(&mut self, packs: u64, failed: &[Vec<u8>]) -> Result<()> {
        let effects = Effects::default();
        for _ in 0..packs {
            self.claims += 1;
            let call = ClaimCall {
                slot: &self.slot,
                number: self.claims,
                want: self.count,
                ttl: PATIENCE,
                alone: true,
            };
            let Claim::Claimed { range, pack } = self.store.claim(call).await? else {
                bail!("nothing was claimed");
            };
            if !matches!(pack, ClaimedPack::Sent(_)) {
                let read = self.store.pack(range.pack).await?;
                ensure!(read.is_some(), "the pack is gone");
            }
            let outcomes = CommitCall {
                delayed: &[],
                first: range.first,
                last: range.last,
                failed,
                effects: &effects,
                max_errors: u64::MAX,
                digest: None,
            };
            let answer = self.store.commit(&self.slot, self.claims, outcomes).await?;
            ensure!(answer == Commit::Done, "{answer:?}");
        }
        Ok(())
    }

    /// Throws away what failed.
    pub(crate) fn forget_errors(&mut self) -> Result<()> {
        let key = &self.store.keys().errors;
        Ok(redis::cmd("UNLINK").arg(key).exec(&mut self.redis)?)
    }

    /// Microseconds of the server's main thread so far.
    pub(crate) fn cpu_us(&mut self) -> Result<f64> {
        redis_cpu_us(&mut self.redis)
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

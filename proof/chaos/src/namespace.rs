//! A network namespace for one node, where root allows it: packets really vanish.
//!
//! A [`Proxy`] only imitates a bad network: it acknowledges bytes and then loses them. Behind a cut
//! wire, TCP gets no answer and sends again. A node that is killed there leaves the server with
//! an open connection, as a pulled plug does.
//!
//! The node lives in a namespace with one wire to the host (a veth pair). The server keeps
//! listening on 127.0.0.1; a proxy at the host's end of the wire forwards to it. A group of servers
//! listens at the host's end itself, because Sentinels give all clients the same addresses. To cut a direction,
//! its sender gets a wrong hardware address for the other end: packets go out and no one takes
//! them. A link that is down, or a blackhole route, would report an error to the sender at once.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::Proxy;

/// Namespaces are named by this, the process that made them and a number.
const PREFIX: &str = "baton-";
/// The wire's name at the node's end.
const WIRE: &str = "wire";
/// Hardware addresses of the ends of a wire, and an unused one.
const HOST_END: &str = "02:00:00:00:00:01";
const NODE_END: &str = "02:00:00:00:00:02";
const NOWHERE: &str = "02:00:00:00:00:0f";
/// Networks of four addresses in 198.18.0.0/15, which is set aside for tests of networks.
const NETWORKS: u32 = 1 << 15;

/// Why there can be no [`Namespace`] here, if so: not root, not Linux, no iproute2.
pub fn why_not() -> Option<String> {
    Namespace::without_proxy()
        .err()
        .map(|error| format!("{error:#}"))
}

/// A network namespace with a wire to the server. Dropping it removes it and kills every process in
/// it. A killed run leaves its namespace behind; the next [`Namespace::new`] removes it.
pub struct Namespace {
    wire: Wire,
    proxy: Option<Proxy>,
}

impl Namespace {
    /// A namespace from which `server` can be reached, through [`Namespace::proxy`].
    pub fn new(server: SocketAddr) -> Result<Self> {
        sweep()?;
        let wire = Wire::new()?;
        let proxy = Proxy::start_on(wire.host.into(), server)
            .with_context(|| format!("cannot listen on {}", wire.host))?;
        Ok(Self {
            wire,
            proxy: Some(proxy),
        })
    }

    /// A namespace from which servers can be reached that listen on [`Namespace::host`].
    pub fn without_proxy() -> Result<Self> {
        sweep()?;
        Ok(Self {
            wire: Wire::new()?,
            proxy: None,
        })
    }

    /// The host's address, as a node inside sees it.
    pub fn host(&self) -> IpAddr {
        self.wire.host.into()
    }

    /// The forwarder between the wire and the server, which can imitate a bad network as well. A node
    /// inside finds the server at its address.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Words to put in front of a command line so that it runs inside. The process that is
    /// started becomes the program, so its id is the program's.
    pub fn command_prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.wire.name]
            .map(str::to_owned)
            .to_vec()
    }

    /// A command that runs a program inside, with none of this process's BATON_* variables.
    pub fn command(&self, program: &Path) -> Command {
        let prefix = self.command_prefix();
        let mut command = baton_processes::command(Path::new(&prefix[0]));
        command.args(&prefix[1..]).arg(program);
        command
    }

    /// Lets every packet vanish, both ways, without an error at either end.
    pub fn cut(&self) -> Result<()> {
        self.wire.pass(false, false)
    }

    /// Lets packets from the node vanish.
    pub fn lose_calls(&self) -> Result<()> {
        self.wire.pass(false, true)
    }

    /// Lets packets to the node vanish.
    pub fn lose_replies(&self) -> Result<()> {
        self.wire.pass(true, false)
    }

    /// Lets all packets pass again. Connections go on where they were, as TCP sends again.
    pub fn mend(&self) -> Result<()> {
        self.wire.pass(true, true)
    }
}

/// A namespace and its wire. Dropping it removes both, even if they were only half made.
struct Wire {
    name: String,
    /// The wire's name at the host's end.
    link: String,
    host: Ipv4Addr,
    node: Ipv4Addr,
}

impl Wire {
    fn new() -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let network = free_network(pid.wrapping_mul(16).wrapping_add(number))?;
        let wire = Self {
            name: format!("{PREFIX}{pid}-{number}"),
            link: link(pid, number),
            host: Ipv4Addr::from_bits(network + 1),
            node: Ipv4Addr::from_bits(network + 2),
        };
        let Self { name, link, .. } = &wire;
        ip(&format!("netns add {name}"))?;
        ip(&format!(
            "link add {link} address {HOST_END} type veth \
             peer name {WIRE} address {NODE_END} netns {name}"
        ))?;
        ip(&format!("address add {}/30 dev {link}", wire.host))?;
        ip(&format!("link set {link} up"))?;
        let inside = format!("-netns {name}");
        ip(&format!("{inside} address add {}/30 dev {WIRE}", wire.node))?;
        ip(&format!("{inside} link set {WIRE} up"))?;
        ip(&format!("{inside} link set lo up"))?;
        wire.pass(true, true)?;
        Ok(wire)
    }

    /// Says which ways packets pass.
    fn pass(&self, calls: bool, replies: bool) -> Result<()> {
        let Self { name, link, .. } = self;
        let to_host = if calls { HOST_END } else { NOWHERE };
        let to_node = if replies { NODE_END } else { NOWHERE };
        let (host, node) = (self.host, self.node);
        ip(&format!(
            "-netns {name} neighbour replace {host} lladdr {to_host} dev {WIRE} nud permanent"
        ))?;
        ip(&format!(
            "neighbour replace {node} lladdr {to_node} dev {link} nud permanent"
        ))?;
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// The name of a wire's host end; the system allows 15 letters.
fn link(pid: u32, number: u32) -> String {
    format!("bat{pid}x{number}")
}

/// The process and the number in a name of ours.
fn parse(name: &str) -> Option<(u32, u32)> {
    let (pid, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, number.parse().ok()?))
}

/// Names of all namespaces of ours, of this run and others.
fn ours() -> Result<Vec<String>> {
    let list = ip("netns list")?;
    let names = list.lines().filter_map(|line| line.split(' ').next());
    Ok(names
        .filter(|name| parse(name).is_some())
        .map(str::to_owned)
        .collect())
}

/// Removes the namespaces of runs that are dead.
fn sweep() -> Result<()> {
    for name in ours()? {
        let dead = |(pid, _)| !Path::new(&format!("/proc/{pid}")).exists();
        if parse(&name).is_some_and(dead) {
            remove(&name);
        }
    }
    Ok(())
}

/// Removes a namespace, what runs in it and its wire; some of it may not be there.
fn remove(name: &str) {
    for pid in pids(name) {
        let _ = kill_process(pid, Signal::KILL);
    }
    // It would go with the namespace, but only when the last process inside is gone.
    if let Some((pid, number)) = parse(name) {
        let _ = ip(&format!("link delete {}", link(pid, number)));
    }
    let _ = ip(&format!("netns delete {name}"));
}

/// The processes that run in a namespace.
fn pids(name: &str) -> Vec<Pid> {
    let pids = ip(&format!("netns pids {name}")).unwrap_or_default();
    pids.lines()
        .filter_map(|pid| Pid::from_raw(pid.trim().parse().ok()?))
        .collect()
}

/// The first address of a network of four that this machine does not use.
fn free_network(first_try: u32) -> Result<u32> {
    let used = ip("-oneline -4 address show")?;
    (0..NETWORKS)
        .map(|offset| Ipv4Addr::new(198, 18, 0, 0).to_bits() + (first_try + offset) % NETWORKS * 4)
        .find(|network| !used.contains(&format!(" {}/", Ipv4Addr::from_bits(network + 1))))
        .ok_or_else(|| anyhow!("all networks in 198.18.0.0/15 are taken"))
}

/// Runs `ip` with these words and returns what it says.
fn ip(words: &str) -> Result<String> {
    let ran = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .context("cannot run `ip` (Debian: iproute2)")?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("ip {words}: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

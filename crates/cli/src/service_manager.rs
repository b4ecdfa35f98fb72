//! What a node tells the service manager that started it, such as systemd: that it is ready, what it
//! does, that it lives, and that it stops. The protocol is that of sd_notify(3).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};
use std::{fmt, future, io};

use anyhow::Context;
use baton::inspect::Meter;
use baton::{Event, FleetName};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Pause before a message is sent again to a service manager that is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// The service manager of a node.
pub(crate) struct ServiceManager {
    address: SocketAddr,
    /// How often it wants to hear that the node lives.
    watchdog: Option<Duration>,
    fleet: FleetName,
    status: watch::Sender<Status>,
}

/// What the node does.
struct Status {
    role: String,
    /// Why it cannot use Redis; none if it can.
    redis_trouble: Option<String>,
}

impl fmt::Display for Status {
    /// One line for people: a line break would begin another assignment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(reason) = &self.redis_trouble else {
            return f.write_str(&self.role);
        };
        let reason = reason.replace(char::is_control, " ");
        write!(f, "{}; waiting for Redis: {reason}", self.role)
    }
}

impl ServiceManager {
    /// The service manager that the environment names, if it names one.
    pub(crate) fn from_environment(fleet: &FleetName) -> anyhow::Result<Option<Self>> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let address = address(&name).with_context(|| {
            let name = name.display();
            format!("NOTIFY_SOCKET is {name}, which is not the address of a socket")
        })?;
        Ok(Some(Self {
            address,
            watchdog: watchdog(|name| std::env::var(name).ok(), std::process::id()),
            fleet: fleet.clone(),
            status: watch::Sender::new(Status {
                role: format!("joining fleet {fleet}"),
                redis_trouble: None,
            }),
        }))
    }

    /// Notes what an event says about what the node does.
    pub(crate) fn note(&self, event: &Event) {
        let fleet = &self.fleet;
        self.status.send_if_modified(|status| {
            match event {
                Event::Generator { epoch } => {
                    status.role = format!("generator of fleet {fleet}, epoch {epoch}");
                }
                Event::Worker { generator } => {
                    status.role = format!("worker of fleet {fleet}, where {generator} generates");
                }
                Event::Fenced { .. } => status.role = format!("fenced in fleet {fleet}"),
                Event::Redis { up: true, .. } => status.redis_trouble = None,
                Event::Redis { up: false, reason } => {
                    let reason = reason.as_deref().unwrap_or("connection lost");
                    status.redis_trouble = Some(reason.to_owned());
                }
                _ => return false,
            }
            true
        });
    }

    /// Tells the service manager that the node is ready when it has joined its fleet, what it does, and
    /// as long as its loop turns that it lives. Never returns.
    pub(crate) async fn inform(&self, meter: &Meter) {
        let ready = async {
            meter.joined().await;
            self.tell("READY=1").await;
            future::pending().await
        };
        let describe = async {
            let mut status = self.status.subscribe();
            loop {
                let text = format!("STATUS={}", *status.borrow_and_update());
                self.tell(&text).await;
                if status.changed().await.is_err() {
                    // The sender is a part of `self`.
                    future::pending::<()>().await;
                }
            }
        };
        let live = async {
            let Some(every) = self.watchdog else {
                return future::pending().await;
            };
            let mut ticks = tokio::time::interval(every / 2);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if is_alive(meter, Instant::now()) {
                    self.tell("WATCHDOG=1").await;
                }
            }
        };
        // None of them ends.
        let ((), (), ()) = tokio::join!(ready, describe, live);
    }

    /// Tells it that the node stops. Does not wait for a service manager that is busy: the exit of the
    /// process says the same.
    pub(crate) fn stopping(&self) {
        let _ = self.send(&format!("STOPPING=1\nSTATUS=leaving fleet {}", self.fleet));
    }

    /// Sends a message, however long the service manager is busy. One that is gone gets none.
    async fn tell(&self, message: &str) {
        while let Err(error) = self.send(message) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Sends a message, on a socket of its own: the service manager may have opened another one under the
    /// same name.
    fn send(&self, message: &str) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&self.address)?;
        socket.send(message.as_bytes()).map(|_| ())
    }
}

/// Whether the node's loop turns as it should.
fn is_alive(meter: &Meter, now: Instant) -> bool {
    meter.next_turn_due().is_some_and(|due| now < due)
}

/// The address of a socket: a path, or `@` and an abstract name.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        #[cfg(target_os = "linux")]
        [b'@', abstract_name @ ..] => {
            <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(abstract_name)
        }
        _ => Err(io::Error::other("it begins with neither / nor @")),
    }
}

/// How often the service manager wants to hear that this process lives, if it does.
fn watchdog(variable: impl Fn(&str) -> Option<String>, own_pid: u32) -> Option<Duration> {
    let is_own = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(own_pid));
    let every = variable("WATCHDOG_USEC")?.parse().ok()?;
    (is_own && every > 1).then_some(Duration::from_micros(every))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_for_the_process_that_it_names() {
        let watchdog = |usec: Option<&str>, pid: Option<&str>| {
            let variable = |name: &str| match name {
                "WATCHDOG_USEC" => usec.map(str::to_owned),
                _ => pid.map(str::to_owned),
            };
            watchdog(variable, 17)
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some("17")), second);
        for (usec, pid) in [
            (Some("1000000"), Some("18")),
            (Some("1000000"), Some("")),
            (Some("0"), None),
            (Some("soon"), None),
            (None, Some("17")),
        ] {
            assert_eq!(watchdog(usec, pid), None, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn a_node_without_a_turn_is_not_alive() {
        assert!(!is_alive(&Meter::default(), Instant::now()));
    }

    #[test]
    fn a_socket_has_a_path_or_an_abstract_name() {
        assert!(
            address(OsStr::new("/run/notify"))
                .unwrap()
                .as_pathname()
                .is_some()
        );
        #[cfg(target_os = "linux")]
        assert!(
            address(OsStr::new("@notify"))
                .unwrap()
                .as_pathname()
                .is_none()
        );
        for bad in ["notify", "vsock:2:1", ""] {
            assert!(address(OsStr::new(bad)).is_err(), "{bad}");
        }
    }
}

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);
/// A client: sends its input, prints what it hears.
const CLIENT: &str = r#"exec 3<>"/dev/tcp/$0/$1" 4<&0; cat <&4 >&3 & exec cat <&3"#;

/// None where a test has to be left out. One at a time: each would sweep up the leftovers that
/// another is just making.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match why_not() {
        Some(reason) => {
            eprintln!("left out: {reason}");
            None
        }
        None => Some(turn),
    }
}

#[track_caller]
fn wait_for(what: &str, fits: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !fits() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn wait_ended(child: &mut Child) {
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client in a namespace, connected to a server that the test plays.
struct Place {
    net: Namespace,
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    server: TcpStream,
}

impl Place {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let net = Namespace::new(listener.local_addr().unwrap()).unwrap();
        let mut client = net
            .command(Path::new("bash"))
            .args(["-c", CLIENT])
            .arg(net.host().to_string())
            .arg(net.proxy().unwrap().addr().port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self {
            input: client.stdin.take().unwrap(),
            output: BufReader::new(client.stdout.take().unwrap()),
            net,
            client,
            server,
        }
    }

    #[track_caller]
    fn calls(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
    }

    #[track_caller]
    fn server_hears(&mut self, line: &str) {
        let mut heard = vec![0; line.len()];
        self.server.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), line);
    }

    #[track_caller]
    fn reply_passes(&mut self, line: &str) {
        self.server.write_all(line.as_bytes()).unwrap();
        let mut heard = String::new();
        self.output.read_line(&mut heard).unwrap();
        assert_eq!(heard, line);
    }

    /// Packets that the host's end has counted so far, `rx` or `tx`, for any receiver.
    fn packets(&self, way: &str) -> u64 {
        let link = &self.net.wire.link;
        let file = format!("/sys/class/net/{link}/statistics/{way}_packets");
        fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }

    /// Waits until something was sent, and sent again.
    #[track_caller]
    fn wait_sent_in_vain(&self, way: &str, before: u64) {
        wait_for("packets that vanish", || self.packets(way) >= before + 2);
    }

    fn server_is_silent(&mut self) -> bool {
        self.server.set_nonblocking(true).unwrap();
        let read = self.server.read(&mut [0]);
        self.server.set_nonblocking(false).unwrap();
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

#[test]
fn packets_vanish_one_way_and_pass_when_the_wire_is_mended() {
    let Some(_turn) = turn() else { return };
    let mut place = Place::new();
    place.calls("one\n");
    place.server_hears("one\n");
    place.reply_passes("first\n");

    place.net.lose_calls().unwrap();
    let before = place.packets("rx");
    place.calls("two\n");
    place.reply_passes("second\n");
    place.wait_sent_in_vain("rx", before);
    assert!(place.server_is_silent());
    place.net.mend().unwrap();
    place.server_hears("two\n");
    // With it, the node hears that its call has come: until then TCP would send nothing new.
    place.reply_passes("third\n");

    place.net.lose_replies().unwrap();
    place.calls("three\n");
    place.server_hears("three\n");
    let before = place.packets("tx");
    place.server.write_all(b"fourth\n").unwrap();
    place.wait_sent_in_vain("tx", before);
    assert_eq!(ioctl_fionread(place.output.get_ref()).unwrap(), 0);
    place.net.mend().unwrap();
    let mut heard = String::new();
    place.output.read_line(&mut heard).unwrap();
    assert_eq!(heard, "fourth\n");
    let _ = place.client.kill();
    let _ = place.client.wait();
}

#[test]
fn a_node_that_is_killed_behind_a_cut_wire_seems_to_live_on() {
    let Some(_turn) = turn() else { return };
    let mut place = Place::new();
    place.calls("hello\n");
    place.server_hears("hello\n");
    place.net.cut().unwrap();
    let before = place.packets("rx");
    for pid in pids(&place.net.wire.name) {
        kill_process(pid, Signal::KILL).unwrap();
    }
    wait_ended(&mut place.client);
    place.wait_sent_in_vain("rx", before);
    assert!(place.server_is_silent());
    // Its end is still being sent.
    place.net.mend().unwrap();
    assert_eq!(place.server.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn nothing_is_left_of_a_namespace_that_is_dropped() {
    let Some(_turn) = turn() else { return };
    let Place {
        net,
        mut client,
        input: _input,
        output: _output,
        server: _server,
    } = Place::new();
    let (name, link) = (net.wire.name.clone(), net.wire.link.clone());
    wait_for("both processes", || pids(&name).len() == 2);
    let inside = pids(&name);
    drop(net);
    wait_ended(&mut client);
    assert!(!ours().unwrap().contains(&name));
    assert!(!Path::new("/sys/class/net").join(link).exists());
    // A zombie has no words.
    let is_gone =
        |pid: &Pid| fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |words| words.is_empty());
    wait_for("their end", || inside.iter().all(is_gone));
}

#[test]
fn what_a_dead_run_has_left_is_removed_by_the_next() {
    let Some(_turn) = turn() else { return };
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let (name, link) = (format!("{PREFIX}{}-0", dead.id()), link(dead.id(), 0));
    ip(&format!("netns add {name}")).unwrap();
    ip(&format!(
        "link add {link} type veth peer name {WIRE} netns {name}"
    ))
    .unwrap();
    let mut inside = Command::new("ip")
        .args(["netns", "exec", &name, "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a process inside", || pids(&name).len() == 1);

    let living = Namespace::new(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
    let left = ours().unwrap();
    assert!(!left.contains(&name) && left.contains(&living.wire.name));
    assert!(!Path::new("/sys/class/net").join(link).exists());
    wait_ended(&mut inside);
}

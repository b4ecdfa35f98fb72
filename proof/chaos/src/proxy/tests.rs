use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

use baton_server::PrivateServer;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A server that a test plays itself, and a proxy in front of it.
struct Place {
    server: TcpListener,
    proxy: Proxy,
}

impl Place {
    fn new() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(server.local_addr().unwrap()).unwrap();
        Self { server, proxy }
    }

    /// A client's end of a new connection.
    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.proxy.addr()).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client
    }

    /// Both ends of a new connection.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.client();
        let (server, _) = self.server.accept().unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        (client, server)
    }

    fn wait_for(&self, what: &str, fits: impl Fn(Counts) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !fits(self.proxy.counts()) {
            let counts = self.proxy.counts();
            assert!(Instant::now() < deadline, "no {what}: {counts:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_lost(&self, bytes: u64) {
        self.wait_for("loss", |counts| counts.lost >= bytes);
        assert_eq!(self.proxy.counts().lost, bytes);
    }
}

fn say(mut stream: &TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
}

#[track_caller]
fn hears(mut stream: &TcpStream, bytes: &[u8]) {
    let mut heard = vec![0; bytes.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, bytes);
}

/// Whether the connection is open and there is nothing to read.
fn is_silent(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Everything that arrives until the connection ends or breaks.
#[track_caller]
fn rest(mut stream: &TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut heard = Vec::new();
    let end = stream.read_to_end(&mut heard);
    let end = end.err().map(|error| error.kind());
    assert_ne!(end, Some(ErrorKind::WouldBlock), "it is still open");
    (heard, end)
}

#[test]
fn without_a_fault_everything_passes_and_so_do_ends() {
    let place = Place::new();
    let (client, server) = place.connect();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            say(&client, &bytes);
            client.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(rest(&server), (bytes.clone(), None));
        // The other way is still open.
        scope.spawn(|| {
            say(&server, &bytes);
            server.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(rest(&client), (bytes.clone(), None));
    });
    place.wait_for("end", |counts| counts.open == 0);
    assert_eq!(
        place.proxy.counts(),
        Counts {
            connections: 1,
            passed: 6_000_000,
            ..Counts::default()
        }
    );
}

#[test]
fn delayed_bytes_come_late_and_in_order() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::Delay(Duration::from_millis(100)));
    for (from, to) in [(&client, &server), (&server, &client)] {
        let began = Instant::now();
        from.set_nodelay(true).unwrap();
        for number in 0..100 {
            say(from, &[number]);
        }
        hears(to, &(0..100).collect::<Vec<u8>>());
        assert!(began.elapsed() >= Duration::from_millis(50));
    }
    place.proxy.set(Mode::Pass);
    assert_eq!(place.proxy.counts().lost, 0);
}

#[test]
fn lost_replies_vanish_for_good_while_calls_pass() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::LoseReplies);
    say(&client, b"call");
    hears(&server, b"call");
    say(&server, b"reply");
    place.wait_lost(5);

    // Half a stream is worse than none, and the client gets no error.
    place.proxy.set(Mode::Pass);
    say(&server, b"more");
    place.wait_lost(9);
    say(&client, b"again");
    hears(&server, b"again");
    assert!(is_silent(&client));

    let (client, server) = place.connect();
    say(&server, b"new");
    hears(&client, b"new");
}

#[test]
fn lost_calls_vanish_for_good_while_the_server_is_heard() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::LoseCalls);
    say(&client, b"call");
    place.wait_lost(4);
    say(&server, b"push");
    hears(&client, b"push");

    place.proxy.set(Mode::Pass);
    say(&client, b"again");
    place.wait_lost(9);
    say(&server, b"push");
    hears(&client, b"push");
    assert!(is_silent(&server));
}

#[test]
fn through_a_partition_nothing_passes_and_new_connections_are_dead() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::Partition);
    say(&client, b"call");
    say(&server, b"reply");
    place.wait_lost(9);
    assert!(is_silent(&client) && is_silent(&server));
    let dead = place.client();
    say(&dead, b"hello?");
    place.wait_lost(15);

    place.proxy.set(Mode::Pass);
    say(&dead, b"hello?");
    say(&server, b"reply");
    place.wait_lost(26);
    assert!(is_silent(&dead) && is_silent(&client) && is_silent(&server));
    place.server.set_nonblocking(true).unwrap();
    assert!(place.server.accept().is_err(), "the server heard of it");
}

#[test]
fn an_end_that_falls_into_a_partition_arrives_when_it_clears() {
    let place = Place::new();
    let (client, server) = place.connect();
    let (other, _its_server) = place.connect();
    place.proxy.set(Mode::Partition);
    drop(client);
    // Said after the end, so what is known of it is known of the end.
    say(&other, b"x");
    place.wait_lost(1);
    assert!(is_silent(&server));
    place.proxy.set(Mode::Pass);
    assert_eq!(rest(&server), (Vec::new(), None));
}

#[test]
fn a_reply_is_cut_in_two_and_both_sides_are_closed() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::CutReplies);
    say(&client, b"a call passes");
    hears(&server, b"a call passes");
    say(&server, b"0123456789");
    assert_eq!(rest(&client).0, b"01234");
    assert_eq!(rest(&server).0, b"");
    place.wait_for("cut", |counts| counts.cut == 1 && counts.open == 0);
}

#[test]
fn a_call_is_cut_in_two_and_both_sides_are_closed() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::CutCalls);
    say(&server, b"a reply passes");
    hears(&client, b"a reply passes");
    say(&client, b"0123456789");
    assert_eq!(rest(&server).0, b"01234");
    assert_eq!(rest(&client).0, b"");
    place.wait_for("cut", |counts| counts.cut == 1 && counts.open == 0);
}

#[test]
fn new_connections_can_be_refused_while_old_ones_live_on() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::Refuse);
    assert_eq!(
        rest(&place.client()),
        (Vec::new(), Some(ErrorKind::ConnectionReset))
    );
    say(&client, b"call");
    hears(&server, b"call");
    assert_eq!(place.proxy.counts().refused, 1);
}

#[test]
fn a_connection_is_refused_while_the_server_is_away() {
    let Place { server, proxy } = Place::new();
    drop(server);
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(
        rest(&client),
        (Vec::new(), Some(ErrorKind::ConnectionReset))
    );
}

#[test]
fn a_cut_resets_every_connection_dead_or_alive_and_no_new_one() {
    let place = Place::new();
    let (client, server) = place.connect();
    place.proxy.set(Mode::Partition);
    let dead = place.client();
    say(&dead, b"x");
    place.wait_lost(1);
    place.proxy.cut();
    for stream in [&client, &server, &dead] {
        assert_eq!(rest(stream), (Vec::new(), Some(ErrorKind::ConnectionReset)));
    }
    assert_eq!(place.proxy.counts().cut, 2);
    place.proxy.set(Mode::Pass);
    let (client, server) = place.connect();
    say(&client, b"new");
    hears(&server, b"new");
}

#[test]
fn a_proxy_that_is_dropped_closes_everything() {
    let place = Place::new();
    let (client, server) = place.connect();
    drop(place);
    assert_eq!(rest(&client).0, b"");
    assert_eq!(rest(&server).0, b"");
}

#[test]
fn a_real_server_is_the_same_through_a_proxy() {
    let server = PrivateServer::builder().start().unwrap();
    let port = server.port().unwrap();
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    let client = redis::Client::open(format!("redis://{}", proxy.addr())).unwrap();
    let mut calls = client.get_connection().unwrap();

    let mut pipeline = redis::pipe();
    for number in 0..10_000 {
        pipeline.cmd("ECHO").arg(number);
    }
    let echoed: Vec<u64> = pipeline.query(&mut calls).unwrap();
    assert!(echoed.into_iter().eq(0..10_000));

    let mut subscriber = client.get_connection().unwrap();
    let mut heard = subscriber.as_pubsub();
    heard.subscribe("news").unwrap();
    let () = redis::cmd("PUBLISH")
        .arg("news")
        .arg("hello")
        .query(&mut calls)
        .unwrap();
    let news: String = heard.get_message().unwrap().get_payload().unwrap();
    assert_eq!(news, "hello");

    let blocked = client.clone();
    let blocked = std::thread::spawn(move || -> (String, String) {
        let mut blocked = blocked.get_connection().unwrap();
        redis::cmd("BLPOP")
            .arg("list")
            .arg(10)
            .query(&mut blocked)
            .unwrap()
    });
    let () = redis::cmd("RPUSH")
        .arg("list")
        .arg("item")
        .query(&mut calls)
        .unwrap();
    assert_eq!(
        blocked.join().unwrap(),
        ("list".to_owned(), "item".to_owned())
    );
    assert_eq!(proxy.counts().lost, 0);
}

//! Connections are used again, and one that the server closed meanwhile costs nothing.

use std::time::Duration;

use crate::service::{Answer, Service, handle_one, response};

fn done() -> Vec<u8> {
    response("200 OK", "", "fine").into_bytes()
}

#[tokio::test]
async fn messages_one_after_the_other_share_a_connection() {
    let service = Service::start(|_| Answer::Send(done()));
    let push = service.push();
    for _ in 0..20 {
        assert_eq!(handle_one(&push).await, "done");
    }
    assert_eq!(service.connections(), [1; 20]);
}

#[tokio::test]
async fn there_are_no_more_connections_than_lanes() {
    let service = Service::start(|_| Answer::Send(done()));
    let push = service.push();
    let lane = async || {
        for _ in 0..50 {
            assert_eq!(handle_one(&push).await, "done");
        }
    };
    tokio::join!(lane(), lane(), lane(), lane());
    let connections = service.connections();
    assert_eq!(connections.len(), 200);
    assert!(connections.iter().all(|connection| *connection <= 4));
}

/// The test blocks the runtime while the service hangs up. So the handler cannot have noticed, and
/// must check the connection before it sends.
#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_costs_no_attempt() {
    let service = Service::start(|_| Answer::SendAndWait(done()));
    let push = service.push();
    for _ in 0..5 {
        assert_eq!(handle_one(&push).await, "done");
        // Until the task of the connection knows that the connection is idle.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        service.hang_up();
    }
    assert_eq!(service.connections(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_connection_that_the_server_closes_behind_its_answer_costs_no_attempt() {
    let service = Service::start(|_| Answer::SendAndClose(done()));
    let push = service.push();
    for connection in 1..=5 {
        assert_eq!(handle_one(&push).await, "done");
        assert_eq!(service.wait_closed(), connection);
    }
    assert_eq!(service.connections(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_closes_an_idle_connection() {
    let late = response("408 Request Timeout", "", "");
    let service = Service::start(move |_| {
        let both = [done(), late.clone().into_bytes()].concat();
        Answer::Send(both)
    });
    let push = service.push();
    assert_eq!(handle_one(&push).await, "done");
    assert_eq!(handle_one(&push).await, "done");
    assert_eq!(service.connections(), [1, 2]);
}

#[tokio::test]
async fn a_server_that_says_close_is_believed() {
    let last = response("200 OK", "Connection: close\r\n", "");
    let service = Service::start(move |_| Answer::Send(last.clone().into_bytes()));
    let push = service.push();
    assert_eq!(handle_one(&push).await, "done");
    assert_eq!(handle_one(&push).await, "done");
    assert_eq!(service.connections(), [1, 2]);
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_not_used() {
    let service = Service::start(|_| Answer::Send(done()));
    let push = service.push();
    assert_eq!(handle_one(&push).await, "done");
    wait(Duration::from_secs(3)).await;
    assert_eq!(handle_one(&push).await, "done");
    wait(Duration::from_secs(5)).await;
    assert_eq!(handle_one(&push).await, "done");
    assert_eq!(service.connections(), [1, 1, 2]);
}

/// Moves the clock of the handler on.
async fn wait(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// The service answers when it has the head of a request, and never reads the rest.
#[tokio::test]
async fn a_connection_on_which_the_last_request_is_stuck_is_not_used() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // All stay open.
        let mut streams = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::io::Read::read_exact(&mut stream, &mut [0; 10]).unwrap();
            std::io::Write::write_all(&mut stream, &done()).unwrap();
            streams.push(stream);
        }
    });
    let push = baton_push::Push::to(&url).unwrap().build().unwrap();
    let large = vec![b'x'; 20 << 20];
    for seq in 1..=2 {
        let message = baton::Message::new(seq, &large);
        assert_eq!(crate::service::handle(&push, message).await.0, "done");
    }
}

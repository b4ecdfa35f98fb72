//! One connection through the proxy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Sky, Way, Weather, add};

/// Most bytes that are taken at once, and most such pieces under way.
const PIECE: (usize, usize) = (64 << 10, 256);

/// What goes one way, piece by piece.
enum Piece {
    Bytes(Vec<u8>),
    /// The sender says no more.
    End,
    /// The sender is gone.
    Reset,
}

/// Why a connection ends before both sides have said all.
enum Broken {
    /// One side is gone, or all connections were cut.
    Reset,
    /// The weather has cut it in the middle.
    Cut,
}

/// Carries what a client and the server say to each other, as the weather allows.
pub(super) async fn carry(mut client: TcpStream, sky: Arc<Sky>, mut cuts: watch::Receiver<u64>) {
    let _open = Open::new(&sky);
    let weather = *sky.weather.borrow();
    if weather == Weather::Refuse {
        return refuse(&sky, client);
    }
    if weather.loses(Way::Calls) {
        // The server would never have heard of it.
        tokio::select! {
            () = lose(&sky, &mut client) => {}
            _ = cuts.changed() => {
                add(&sky.tally.cut, 1);
                reset(client);
            }
        }
        return;
    }
    let Ok(mut server) = TcpStream::connect(sky.upstream).await else {
        return refuse(&sky, client);
    };
    // Small packets are not collected: that would be weather of our own.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let ended = tokio::select! {
        ended = async {
            tokio::try_join!(
                pass(&sky, Way::Calls, from_client, to_server),
                pass(&sky, Way::Replies, from_server, to_client),
            )
        } => ended.map(|_| ()),
        _ = cuts.changed() => {
            add(&sky.tally.cut, 1);
            Err(Broken::Reset)
        }
    };
    match ended {
        Ok(()) => {}
        Err(Broken::Cut) => add(&sky.tally.cut, 1),
        Err(Broken::Reset) => {
            reset(client);
            reset(server);
        }
    }
}

/// Passes on what goes one way, until its sender ends it.
async fn pass(
    sky: &Sky,
    way: Way,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
) -> Result<(), Broken> {
    let (send, receive) = mpsc::channel(PIECE.1);
    let set_out = async {
        set_out(sky, from, send).await;
        Ok(())
    };
    tokio::try_join!(set_out, arrive(sky, way, to, receive)).map(|_| ())
}

/// Takes what a sender says and tells when each piece is due. They queue up: one that is due
/// before another does not overtake it.
async fn set_out(
    sky: &Sky,
    mut from: impl AsyncRead + Unpin,
    pieces: mpsc::Sender<(Instant, Piece)>,
) {
    loop {
        let mut bytes = Vec::with_capacity(PIECE.0);
        let piece = match from.read_buf(&mut bytes).await {
            Ok(0) => Piece::End,
            Ok(_) => Piece::Bytes(bytes),
            Err(_) => Piece::Reset,
        };
        let last = !matches!(piece, Piece::Bytes(_));
        let due = Instant::now() + sky.weather.borrow().delay();
        if pieces.send((due, piece)).await.is_err() || last {
            return;
        }
    }
}

/// Hands over what is due, or does not.
async fn arrive(
    sky: &Sky,
    way: Way,
    mut to: impl AsyncWrite + Unpin,
    mut pieces: mpsc::Receiver<(Instant, Piece)>,
) -> Result<(), Broken> {
    let mut dead = false;
    while let Some((due, piece)) = pieces.recv().await {
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        let weather = *sky.weather.borrow();
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::End => {
                clear(sky, way).await;
                return to.shutdown().await.map_err(|_| Broken::Reset);
            }
            Piece::Reset => {
                clear(sky, way).await;
                return Err(Broken::Reset);
            }
        };
        dead |= weather.loses(way);
        if dead {
            add(&sky.tally.lost, bytes.len());
            continue;
        }
        let cut = weather.cuts(way);
        let whole = bytes.len();
        let passing = if cut { whole / 2 } else { whole };
        if to.write_all(&bytes[..passing]).await.is_err() {
            // That the receiver is gone is told the other way.
            clear(sky, way.back()).await;
            return Err(Broken::Reset);
        }
        add(&sky.tally.passed, passing);
        if cut {
            add(&sky.tally.lost, whole - passing);
            return Err(Broken::Cut);
        }
    }
    Ok(())
}

/// Waits for weather that loses nothing this way.
async fn clear(sky: &Sky, way: Way) {
    let mut weather = sky.weather.subscribe();
    // The sky outlives this.
    let _ = weather.wait_for(|weather| !weather.loses(way)).await;
}

/// Hears a client to its end, and says nothing.
async fn lose(sky: &Sky, client: &mut TcpStream) {
    let mut bytes = vec![0; PIECE.0];
    while let Ok(count @ 1..) = client.read(&mut bytes).await {
        add(&sky.tally.lost, count);
    }
}

fn refuse(sky: &Sky, client: TcpStream) {
    add(&sky.tally.refused, 1);
    reset(client);
}

/// Closes a connection without an end: the other side hears that it is broken.
fn reset(stream: TcpStream) {
    // Without it, this is an orderly end.
    let _ = stream.set_zero_linger();
}

/// Counts a connection for as long as it is open.
struct Open<'a>(&'a Sky);

impl<'a> Open<'a> {
    fn new(sky: &'a Sky) -> Self {
        add(&sky.tally.open, 1);
        Self(sky)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.tally.open.fetch_sub(1, Ordering::Relaxed);
    }
}

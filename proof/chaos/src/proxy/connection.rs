//! One connection through the proxy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Mode, Shared, Way, add};

/// Max bytes of a piece, and max pieces on their way.
const PIECE: (usize, usize) = (64 << 10, 256);

/// A piece of a stream.
enum Piece {
    Bytes(Vec<u8>),
    /// The sender has ended its stream.
    End,
    /// The sender is gone.
    Reset,
}

/// Why a connection ends before both sides have ended it.
enum Broken {
    /// One side is gone, or all connections were cut.
    Reset,
    /// The mode has cut a piece in two.
    Cut,
}

/// Carries bytes between a client and the server, as the mode allows.
pub(super) async fn carry(
    mut client: TcpStream,
    shared: Arc<Shared>,
    mut cuts: watch::Receiver<u64>,
) {
    let _open = Open::new(&shared);
    let mode = *shared.mode.borrow();
    if mode == Mode::Refuse {
        return refuse(&shared, client);
    }
    if mode.loses(Way::Calls) {
        // The connection would never reach the server.
        tokio::select! {
            () = lose(&shared, &mut client) => {}
            _ = cuts.changed() => {
                add(&shared.tally.cut, 1);
                reset(client);
            }
        }
        return;
    }
    let Ok(mut server) = TcpStream::connect(shared.upstream).await else {
        return refuse(&shared, client);
    };
    // Collecting small packets would be a delay that no mode asks for.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let ended = tokio::select! {
        ended = async {
            tokio::try_join!(
                pass(&shared, Way::Calls, from_client, to_server),
                pass(&shared, Way::Replies, from_server, to_client),
            )
        } => ended.map(|_| ()),
        _ = cuts.changed() => {
            add(&shared.tally.cut, 1);
            Err(Broken::Reset)
        }
    };
    match ended {
        Ok(()) => {}
        Err(Broken::Cut) => add(&shared.tally.cut, 1),
        Err(Broken::Reset) => {
            reset(client);
            reset(server);
        }
    }
}

/// Passes on one direction until its sender ends it.
async fn pass(
    shared: &Shared,
    way: Way,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
) -> Result<(), Broken> {
    let (send, receive) = mpsc::channel(PIECE.1);
    let set_out = async {
        set_out(shared, from, send).await;
        Ok(())
    };
    tokio::try_join!(set_out, arrive(shared, way, to, receive)).map(|_| ())
}

/// Reads pieces from a sender and notes when each is due. A piece never overtakes another.
async fn set_out(
    shared: &Shared,
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
        let due = Instant::now() + shared.mode.borrow().delay();
        if pieces.send((due, piece)).await.is_err() || last {
            return;
        }
    }
}

/// Writes the pieces that are due, as the mode allows.
async fn arrive(
    shared: &Shared,
    way: Way,
    mut to: impl AsyncWrite + Unpin,
    mut pieces: mpsc::Receiver<(Instant, Piece)>,
) -> Result<(), Broken> {
    let mut dead = false;
    while let Some((due, piece)) = pieces.recv().await {
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        let mode = *shared.mode.borrow();
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes,
            Piece::End => {
                clear(shared, way).await;
                return to.shutdown().await.map_err(|_| Broken::Reset);
            }
            Piece::Reset => {
                clear(shared, way).await;
                return Err(Broken::Reset);
            }
        };
        dead |= mode.loses(way);
        if dead {
            add(&shared.tally.lost, bytes.len());
            continue;
        }
        let cut = mode.cuts(way);
        let whole = bytes.len();
        let kept = if cut { whole / 2 } else { whole };
        if to.write_all(&bytes[..kept]).await.is_err() {
            // The sender learns over the other direction that the receiver is gone.
            clear(shared, way.back()).await;
            return Err(Broken::Reset);
        }
        add(&shared.tally.passed, kept);
        if cut {
            add(&shared.tally.lost, whole - kept);
            return Err(Broken::Cut);
        }
    }
    Ok(())
}

/// Waits for a mode that loses nothing in this direction.
async fn clear(shared: &Shared, way: Way) {
    let mut mode = shared.mode.subscribe();
    // The sender of the channel outlives this call.
    let _ = mode.wait_for(|mode| !mode.loses(way)).await;
}

/// Reads from a client to its end, and loses everything.
async fn lose(shared: &Shared, client: &mut TcpStream) {
    let mut bytes = vec![0; PIECE.0];
    while let Ok(count @ 1..) = client.read(&mut bytes).await {
        add(&shared.tally.lost, count);
    }
}

fn refuse(shared: &Shared, client: TcpStream) {
    add(&shared.tally.refused, 1);
    reset(client);
}

/// Closes a connection with a reset: the other side gets an error.
fn reset(stream: TcpStream) {
    // Without this, the end would be orderly.
    let _ = stream.set_zero_linger();
}

/// Counts a connection for as long as it is open.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        add(&shared.tally.open, 1);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.tally.open.fetch_sub(1, Ordering::Relaxed);
    }
}

//! The task in which a source runs.
//!
//! The generator orders, the task answers. An order to open or to close ends whatever the source does at
//! that moment, so a source that hangs delays neither a stop nor the next reign.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::node::clock::Clock;
use crate::source::{Batch, FleetClock, Flow, Position, Source, SourceError};

/// What the generator asks of its source.
#[derive(Debug)]
enum Order {
    Open {
        opening: u64,
        next_seq: u64,
        cursor: Option<Vec<u8>>,
    },
    Fill(Batch),
    Accepted(Vec<u8>),
    Close,
}

/// What the source made.
#[derive(Debug)]
pub(crate) enum Made {
    Batch(Batch, Flow),
    Failed(SourceError),
}

/// The generator's end of the task. Dropping it ends the task.
pub(crate) struct SourceTask {
    kind: String,
    replays: bool,
    orders: mpsc::UnboundedSender<Order>,
    made: mpsc::UnboundedReceiver<(u64, Made)>,
    /// Answers to an earlier opening do not count.
    opening: u64,
    task: AbortOnDrop,
}

impl SourceTask {
    pub(crate) fn start<S: Source>(source: S, clock: Arc<Clock>) -> Self {
        let (orders, ordered) = mpsc::unbounded_channel();
        let (makes, made) = mpsc::unbounded_channel();
        Self {
            kind: source.kind().to_owned(),
            replays: source.replays(),
            orders,
            made,
            opening: 0,
            task: AbortOnDrop(tokio::spawn(run(
                source,
                FleetClock::new(clock),
                ordered,
                makes,
            ))),
        }
    }

    /// The source's word for its kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether it makes the same texts under the same numbers again.
    pub(crate) fn replays(&self) -> bool {
        self.replays
    }

    /// Lets the source continue behind a position, whatever it does now.
    pub(crate) fn open(&mut self, next_seq: u64, cursor: Option<Vec<u8>>) {
        self.opening += 1;
        self.order(Order::Open {
            opening: self.opening,
            next_seq,
            cursor,
        });
    }

    /// Asks for messages.
    pub(crate) fn fill(&self, batch: Batch) {
        self.order(Order::Fill(batch));
    }

    /// Says that Redis has all messages up to this cursor.
    pub(crate) fn accepted(&self, cursor: Vec<u8>) {
        self.order(Order::Accepted(cursor));
    }

    /// Ends what the source does now.
    pub(crate) fn close(&mut self) {
        self.opening += 1;
        self.order(Order::Close);
    }

    /// A task that is gone is noticed in `next`.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// The source's next answer since it was opened.
    pub(crate) async fn next(&mut self) -> Made {
        loop {
            match self.made.recv().await {
                Some((opening, made)) if opening == self.opening => return made,
                Some(_) => {}
                None => return Made::Failed(SourceError::fatal("the source panicked")),
            }
        }
    }

    /// Closes the source, and waits until it has released everything.
    pub(crate) async fn end(self) {
        let Self {
            orders, mut task, ..
        } = self;
        let _ = orders.send(Order::Close);
        drop(orders);
        let _ = (&mut task.0).await;
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a source until the generator drops its end.
async fn run<S: Source>(
    mut source: S,
    clock: FleetClock,
    orders: mpsc::UnboundedReceiver<Order>,
    made: mpsc::UnboundedSender<(u64, Made)>,
) {
    let mut orders = Orders {
        received: orders,
        waiting: VecDeque::new(),
    };
    let (mut opening, mut is_open, mut is_closed) = (0, false, true);
    while let Some(order) = orders.next().await {
        let answer = match order {
            Order::Open {
                opening: number,
                next_seq,
                cursor,
            } => {
                (opening, is_closed) = (number, false);
                let from = Position {
                    next_seq,
                    cursor: cursor.as_deref(),
                    clock: &clock,
                };
                let opened = orders.or_interrupted(source.open(from)).await;
                is_open = matches!(opened, Some(Ok(())));
                opened.and_then(Result::err).map(Made::Failed)
            }
            Order::Fill(batch) if is_open => fill(&mut source, batch, &mut orders).await,
            Order::Fill(_) => None,
            Order::Accepted(cursor) => {
                orders.or_interrupted(source.accepted(&cursor)).await;
                None
            }
            Order::Close if !is_closed => {
                (is_open, is_closed) = (false, true);
                orders.or_interrupted(source.close()).await;
                None
            }
            Order::Close => None,
        };
        if let Some(answer) = answer {
            let _ = made.send((opening, answer));
        }
    }
}

/// Lets the source fill a batch. While the batch is empty, the source hears in between what Redis has.
async fn fill<S: Source>(source: &mut S, mut batch: Batch, orders: &mut Orders) -> Option<Made> {
    let has_messages = batch.messages_flag();
    loop {
        if let Some(cursor) = orders.accepted_meanwhile() {
            orders.or_interrupted(source.accepted(&cursor)).await?;
        }
        let filled = {
            let mut next = pin!(source.next(&mut batch));
            loop {
                let order = tokio::select! {
                    biased;
                    flow = &mut next => break Ok(flow),
                    order = orders.receive() => order,
                };
                match order {
                    Order::Accepted(cursor) if !has_messages.load(Ordering::Relaxed) => {
                        break Err(cursor);
                    }
                    order => {
                        if orders.is_interrupted_by(order) {
                            return None;
                        }
                    }
                }
            }
        };
        match filled {
            Ok(flow) => return Some(made(flow, batch)),
            Err(cursor) => orders.or_interrupted(source.accepted(&cursor)).await?,
        }
    }
}

fn made(flow: Result<Flow, SourceError>, mut batch: Batch) -> Made {
    if let (Ok(_), Some(wrong)) = (&flow, batch.wrong_key.take()) {
        return Made::Failed(SourceError::Fatal(wrong));
    }
    match flow {
        Ok(_) if batch.is_overfull() => Made::Failed(SourceError::fatal(
            "the source made more messages than there was room for",
        )),
        Ok(flow) => Made::Batch(batch, flow),
        Err(error) => Made::Failed(error),
    }
}

/// The orders of the generator, in order.
struct Orders {
    received: mpsc::UnboundedReceiver<Order>,
    /// Received while the source was busy.
    waiting: VecDeque<Order>,
}

impl Orders {
    /// The next order; none when the generator has dropped its end.
    async fn next(&mut self) -> Option<Order> {
        match self.waiting.pop_front() {
            Some(order) => Some(order),
            None => self.received.recv().await,
        }
    }

    /// Waits for a new order.
    async fn receive(&mut self) -> Order {
        match self.received.recv().await {
            Some(order) => order,
            // Who dropped the other end waits for the last order, or aborts this task.
            None => std::future::pending().await,
        }
    }

    /// What Redis accepted while the source was busy. The last cursor stands for all before it.
    fn accepted_meanwhile(&mut self) -> Option<Vec<u8>> {
        let mut last = None;
        while let Some(Order::Accepted(_)) = self.waiting.front() {
            if let Some(Order::Accepted(cursor)) = self.waiting.pop_front() {
                last = Some(cursor);
            }
        }
        last
    }

    /// Keeps an order for later. Whether it ends what the source does now.
    fn is_interrupted_by(&mut self, order: Order) -> bool {
        let interrupts = matches!(order, Order::Open { .. } | Order::Close);
        if interrupts {
            self.waiting.clear();
        }
        self.waiting.push_back(order);
        interrupts
    }

    /// Waits for the source, or for an order that ends what it does.
    async fn or_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                order = self.receive() => {
                    if self.is_interrupted_by(order) {
                        return None;
                    }
                }
            }
        }
    }
}

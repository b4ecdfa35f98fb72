//! The operator carries out the user's orders. It owns the processes and the server, and has a
//! thread of its own, because to kill, stop and restart all wait for something.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::inspect::Views;
use baton_server::PrivateServer;

use super::super::COPIES;
use super::get_errors;
use super::key_bindings::Order;
use super::nodes::Nodes;
use super::notice_board::NoticeBoard;
use super::summary::Summary;

/// More nodes would slow the machine down and show nothing new.
const MAX_NODES: usize = 40;
/// How often the operator counts takeovers while no order comes.
const COUNT_EVERY: Duration = Duration::from_millis(250);

/// The fleet and its server. Dropping it kills every process and removes every file.
pub(super) struct Operator {
    program: PathBuf,
    // Before the server, so that no copy outlives it.
    nodes: Nodes,
    server: PrivateServer,
    board: Arc<NoticeBoard>,
    summary: Summary,
}

impl Operator {
    /// An operator of a fleet on this server, which has no nodes yet. `views` watches it.
    pub(super) fn new(
        program: PathBuf,
        server: PrivateServer,
        views: Views,
        board: Arc<NoticeBoard>,
    ) -> Self {
        let (url, folder) = (server.url(), server.folder());
        Self {
            nodes: Nodes::new(&program, &url, folder, views, Arc::clone(&board)),
            program,
            server,
            board,
            summary: Summary::default(),
        }
    }

    /// Starts the first nodes, then carries out orders until the user has left.
    pub(super) fn run(mut self, orders: &Receiver<Order>) -> Self {
        let first = self.start_first();
        self.post(first);
        while !self.board.has_left() {
            match orders.recv_timeout(COUNT_EVERY) {
                Ok(order) => {
                    let done = self.carry_out(order);
                    self.post(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(snapshot) = self.nodes.snapshot() {
                self.summary.count(&snapshot);
            }
        }
        self
    }

    /// What the operator has counted.
    pub(super) fn summary(&mut self) -> &mut Summary {
        &mut self.summary
    }

    fn post(&self, done: Result<String>) {
        self.board.post(match done {
            Ok(notice) => notice,
            Err(error) => format!("not done: {error:#}"),
        });
    }

    fn carry_out(&mut self, order: Order) -> Result<String> {
        match order {
            Order::KillGenerator => self.kill_generator(),
            Order::KillWorker(selected) => self.kill_worker(selected.as_deref()),
            Order::Pause(selected) => self.pause(selected.as_deref()),
            Order::Start => self.start(),
            Order::Stop => self.stop_newest(),
            Order::FullSpeed => self.change_speed(),
            Order::RestartRedis => self.restart_redis(),
            Order::GetErrors => self.get_errors(),
        }
    }

    fn start_first(&mut self) -> Result<String> {
        self.board.post(format!("starting {COPIES} nodes"));
        let copies = (0..COPIES)
            .map(|_| self.nodes.start())
            .collect::<Result<Vec<_>>>()?;
        for copy in copies {
            self.nodes.wait_joined(copy)?;
        }
        Ok(format!("{COPIES} nodes started"))
    }

    fn kill_generator(&mut self) -> Result<String> {
        ensure!(
            !self.nodes.living().is_empty(),
            "no node is left, press + for another"
        );
        let generator = self.nodes.wait_generator();
        let copy = generator.context("no node generates at the moment")?;
        let name = self.nodes.name(copy);
        self.kill(copy)?;
        let left = self.nodes.living().len();
        Ok(match left {
            0 => format!("killed the last node {name} with -9: press + for another"),
            _ => format!("killed the generator {name} with -9"),
        })
    }

    fn kill_worker(&mut self, selected: Option<&str>) -> Result<String> {
        let workers = self.nodes.workers();
        ensure!(
            !workers.is_empty(),
            "no worker is left, press + for another"
        );
        let copy = self
            .nodes
            .find(selected)
            .filter(|copy| workers.contains(copy))
            .unwrap_or_else(|| workers[rand::random_range(0..workers.len())]);
        let name = self.nodes.name(copy);
        self.kill(copy)?;
        Ok(format!("killed the worker {name} with -9"))
    }

    fn kill(&mut self, copy: usize) -> Result<()> {
        self.nodes.kill(copy)?;
        self.summary.kills += 1;
        Ok(())
    }

    fn pause(&mut self, selected: Option<&str>) -> Result<String> {
        let named = self.nodes.find(selected).or(self.nodes.last_paused());
        let copy = named.or_else(|| self.nodes.workers().last().copied());
        let copy = copy.context("there is no node to pause, press + for one")?;
        let name = self.nodes.name(copy);
        Ok(match self.nodes.pause(copy)? {
            true => format!("paused {name} with SIGSTOP: p again lets it go on"),
            false => format!("{name} goes on"),
        })
    }

    fn start(&mut self) -> Result<String> {
        let nodes = self.nodes.living().len();
        ensure!(
            nodes < MAX_NODES,
            "{nodes} nodes are enough for one machine"
        );
        let copy = self.nodes.start()?;
        self.nodes.wait_joined(copy)?;
        Ok(format!("started {}", self.nodes.name(copy)))
    }

    fn stop_newest(&mut self) -> Result<String> {
        ensure!(self.nodes.living().len() > 1, "the last node stays");
        let worker = self.nodes.workers().last().copied();
        let copy = worker.context("there is no worker to stop")?;
        let name = self.nodes.name(copy);
        self.nodes.stop(copy)?;
        Ok(format!("stopped {name} in good order"))
    }

    /// Restarts every node at the other speed, one at a time, the generator last. A node stops
    /// when its successor has joined, so that there is always one that works.
    fn change_speed(&mut self) -> Result<String> {
        let speed = match self.nodes.change_speed() {
            true => "full speed",
            false => "a message every 200 ms",
        };
        let mut old = self.nodes.living();
        let nodes = old.len();
        while !old.is_empty() {
            self.board.post(format!(
                "{speed}: restarting node {} of {nodes} in good order",
                nodes - old.len() + 1
            ));
            let generator = self.nodes.generator();
            let at = old.iter().position(|copy| Some(*copy) != generator);
            let copy = old.remove(at.unwrap_or(0));
            let next = self.nodes.start()?;
            self.nodes.wait_joined(next)?;
            self.nodes.stop(copy)?;
        }
        Ok(format!("{speed}: {nodes} nodes restarted in good order"))
    }

    fn restart_redis(&mut self) -> Result<String> {
        let began = Instant::now();
        self.server.restart()?;
        Ok(format!(
            "killed Redis with -9 and started it on the same data, in {} ms",
            began.elapsed().as_millis()
        ))
    }

    fn get_errors(&mut self) -> Result<String> {
        let (folder, url) = (self.server.folder(), self.server.url());
        let taken = get_errors::run(&self.program, &url, folder, || self.board.has_left())?;
        let notice = match taken.count {
            0 => "getErrors: no failed messages".to_owned(),
            1 => "getErrors: 1 failed message printed and removed".to_owned(),
            count => format!("getErrors: {count} failed messages printed and removed"),
        };
        self.board.open_window(notice.clone(), taken.last);
        Ok(notice)
    }
}

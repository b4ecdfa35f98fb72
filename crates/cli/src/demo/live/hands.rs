//! Who carries out the orders: the owner of the processes and of the server, on a thread of its
//! own, because killing, stopping and restarting all wait for something.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton::inspect::Views;
use baton_server::PrivateServer;

use super::super::COPIES;
use super::crew::Crew;
use super::errors;
use super::keys::{Board, Order};
use super::tally::Tally;

/// More processes than this would tell nothing new.
const MOST_COPIES: usize = 40;
/// Pause between two looks at an idle fleet.
const LOOK: Duration = Duration::from_millis(250);

/// The fleet and its server. Dropping it kills every process and removes every file.
pub(super) struct Hands {
    program: PathBuf,
    // Before the server, so that no copy outlives it.
    crew: Crew,
    server: PrivateServer,
    board: Arc<Board>,
    tally: Tally,
}

impl Hands {
    /// A fleet without nodes on this server, watched by `views`.
    pub(super) fn new(
        program: PathBuf,
        server: PrivateServer,
        views: Views,
        board: Arc<Board>,
    ) -> Self {
        let (url, folder) = (server.url(), server.folder());
        Self {
            crew: Crew::new(&program, &url, folder, views, Arc::clone(&board)),
            program,
            server,
            board,
            tally: Tally::default(),
        }
    }

    /// Starts the first nodes, then carries out orders until the user has left.
    pub(super) fn work(mut self, orders: &Receiver<Order>) -> Self {
        let first = self.start_first();
        self.answer(first);
        while !self.board.is_left() {
            match orders.recv_timeout(LOOK) {
                Ok(order) => {
                    let done = self.carry_out(order);
                    self.answer(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(snapshot) = self.crew.snapshot() {
                self.tally.read(&snapshot);
            }
        }
        self
    }

    /// What came of it all.
    pub(super) fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn answer(&self, done: Result<String>) {
        self.board.say(match done {
            Ok(words) => words,
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
        self.board.say(format!("starting {COPIES} nodes"));
        let copies = (0..COPIES)
            .map(|_| self.crew.launch())
            .collect::<Result<Vec<_>>>()?;
        for copy in copies {
            self.crew.wait_joined(copy)?;
        }
        Ok(format!("{COPIES} nodes started"))
    }

    fn kill_generator(&mut self) -> Result<String> {
        ensure!(
            !self.crew.living().is_empty(),
            "no node is left, press + for another"
        );
        let generator = self.crew.wait_generator();
        let copy = generator.context("nobody generates at the moment")?;
        let name = self.crew.name(copy);
        self.kill(copy)?;
        let left = self.crew.living().len();
        Ok(match left {
            0 => format!("killed the last node {name} with -9: press + for another"),
            _ => format!("killed the generator {name} with -9"),
        })
    }

    fn kill_worker(&mut self, selected: Option<&str>) -> Result<String> {
        let workers = self.crew.workers();
        ensure!(
            !workers.is_empty(),
            "no worker is left, press + for another"
        );
        let copy = self
            .crew
            .find(selected)
            .filter(|copy| workers.contains(copy))
            .unwrap_or_else(|| workers[rand::random_range(0..workers.len())]);
        let name = self.crew.name(copy);
        self.kill(copy)?;
        Ok(format!("killed the worker {name} with -9"))
    }

    fn kill(&mut self, copy: usize) -> Result<()> {
        self.crew.kill(copy)?;
        self.tally.kills += 1;
        Ok(())
    }

    fn pause(&mut self, selected: Option<&str>) -> Result<String> {
        let named = self.crew.find(selected).or(self.crew.last_paused());
        let copy = named.or_else(|| self.crew.workers().last().copied());
        let copy = copy.context("there is nobody to pause, press + for a node")?;
        let name = self.crew.name(copy);
        Ok(match self.crew.pause(copy)? {
            true => format!("paused {name} with SIGSTOP: p again lets it go on"),
            false => format!("{name} goes on"),
        })
    }

    fn start(&mut self) -> Result<String> {
        let nodes = self.crew.living().len();
        ensure!(
            nodes < MOST_COPIES,
            "{nodes} nodes are enough for one machine"
        );
        let copy = self.crew.launch()?;
        self.crew.wait_joined(copy)?;
        Ok(format!("started {}", self.crew.name(copy)))
    }

    fn stop_newest(&mut self) -> Result<String> {
        ensure!(self.crew.living().len() > 1, "the last node stays");
        let worker = self.crew.workers().last().copied();
        let copy = worker.context("there is no worker to stop")?;
        let name = self.crew.name(copy);
        self.crew.stop(copy)?;
        Ok(format!("stopped {name} in good order"))
    }

    /// Restarts every node at the other speed, one at a time, the generator last. A node stops
    /// when the one in its place has joined, so that somebody always works.
    fn change_speed(&mut self) -> Result<String> {
        let speed = match self.crew.change_speed() {
            true => "full speed",
            false => "a message every 200 ms",
        };
        let mut old = self.crew.living();
        let nodes = old.len();
        while !old.is_empty() {
            self.board.say(format!(
                "{speed}: restarting node {} of {nodes} in good order",
                nodes - old.len() + 1
            ));
            let generator = self.crew.generator();
            let at = old.iter().position(|copy| Some(*copy) != generator);
            let copy = old.remove(at.unwrap_or(0));
            let next = self.crew.launch()?;
            self.crew.wait_joined(next)?;
            self.crew.stop(copy)?;
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
        let taken = errors::take(&self.program, &url, folder, || self.board.is_left())?;
        let words = match taken.count {
            0 => "getErrors: no failed messages".to_owned(),
            1 => "getErrors: 1 failed message printed and removed".to_owned(),
            count => format!("getErrors: {count} failed messages printed and removed"),
        };
        self.board.show(words.clone(), taken.last);
        Ok(words)
    }
}

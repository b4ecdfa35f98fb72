//! Bad weather between nodes and the server.

use std::time::Duration;

use anyhow::Result;

use super::{Fault, Note};
use crate::dice::Dice;
use crate::proxy::Weather;
use crate::stage::Stage;

pub(super) struct Bad {
    weather: Weather,
    dice: Dice,
    hit: Vec<usize>,
}

impl Bad {
    pub(super) fn new(weather: Weather, dice: Dice) -> Self {
        Self {
            weather,
            dice,
            hit: Vec::new(),
        }
    }

    pub(super) fn delay(mut dice: Dice) -> Self {
        let by = Duration::from_millis(dice.between(5, 400));
        Self::new(Weather::Delay(by), dice)
    }

    /// All nodes, or the generator, or one that is not.
    fn choose(&mut self, stage: &mut Stage) -> Vec<usize> {
        let (alive, generator, workers) = (stage.fleet.alive(), stage.generator(), stage.workers());
        let one = match self.dice.between(0, 2) {
            0 => return alive,
            1 => generator.or_else(|| self.dice.pick(&alive)),
            _ => self.dice.pick(&workers),
        };
        one.into_iter().collect()
    }
}

impl Fault for Bad {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        self.hit = self.choose(stage);
        note.targets = stage.labels(&self.hit);
        if let Weather::Delay(by) = self.weather {
            note.text = format!("by about {} ms", by.as_millis());
        }
        for node in &self.hit {
            let Some(proxy) = stage.proxy(*node) else {
                continue;
            };
            proxy.set(self.weather);
            if matches!(self.weather, Weather::Fair | Weather::Refuse) {
                proxy.cut();
            }
        }
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        for node in &self.hit {
            if let Some(proxy) = stage.proxy(*node) {
                proxy.set(Weather::Fair);
            }
        }
        Ok(())
    }
}

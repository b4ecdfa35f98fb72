//! The flags of `pause`, `resume` and `drain`.

use baton::Part;
use clap::ValueEnum;

#[derive(clap::Args)]
pub(crate) struct PauseArgs {
    /// Which part of the fleet; both if you name none
    #[arg(value_name = "PART")]
    part: Option<NamedPart>,
}

#[derive(Clone, Copy, ValueEnum)]
enum NamedPart {
    /// Redis accepts no new messages
    Generator,
    /// Redis hands out no messages; what workers have claimed ends
    Workers,
}

impl PauseArgs {
    /// The parts that are meant.
    pub(crate) fn parts(&self) -> Vec<Part> {
        match self.part {
            Some(NamedPart::Generator) => vec![Part::Generator],
            Some(NamedPart::Workers) => vec![Part::Workers],
            None => Part::ALL.to_vec(),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct DrainArgs {
    /// Return when every message has ended, delayed ones too
    #[arg(long, env = "BATON_WAIT")]
    pub(crate) wait: bool,
}

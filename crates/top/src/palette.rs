//! The styles: few, each with a meaning, and distinguishable without colours, too.

use ratatui::style::{Color, Modifier, Style};

/// The styles, with or without colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
}

impl Palette {
    /// Colours unless the user has set `NO_COLOR`: <https://no-color.org>.
    pub(crate) fn from_environment() -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { colour }
    }

    /// A colour, or a modifier on a screen without colours.
    fn of(self, colour: Color, otherwise: Modifier) -> Style {
        match self.colour {
            true => Style::new().fg(colour),
            false => Style::new().add_modifier(otherwise),
        }
    }

    /// The generator.
    pub(crate) fn generator(self) -> Style {
        self.of(Color::Cyan, Modifier::BOLD)
            .add_modifier(Modifier::BOLD)
    }

    /// A takeover that has just happened.
    pub(crate) fn news(self) -> Style {
        self.generator().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn good(self) -> Style {
        self.of(Color::Green, Modifier::empty())
    }

    pub(crate) fn warning(self) -> Style {
        self.of(Color::Yellow, Modifier::BOLD)
    }

    pub(crate) fn bad(self) -> Style {
        self.of(Color::Red, Modifier::BOLD)
            .add_modifier(Modifier::BOLD)
    }

    /// The banner that says that Redis is away.
    pub(crate) fn banner(self) -> Style {
        self.bad().add_modifier(Modifier::REVERSED)
    }

    /// Less important texts: labels, dead nodes.
    pub(crate) fn faint(self) -> Style {
        self.of(Color::DarkGray, Modifier::DIM)
    }

    /// The last known state while Redis is away.
    pub(crate) fn stale(self) -> Style {
        self.faint().add_modifier(Modifier::DIM)
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

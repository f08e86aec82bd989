//! Colours that stay apart for colour-blind people (after Okabe and Ito, from the 256-colour palette), or none at all. What a
//! colour says is always also there as text.

use ratatui::style::{Color, Modifier, Style};

use super::node_state::State;

const SKY: Color = Color::Indexed(74);
const ORANGE: Color = Color::Indexed(214);
const GREEN: Color = Color::Indexed(36);
const PINK: Color = Color::Indexed(175);

#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn cpu(self) -> Style {
        self.colour(SKY)
    }

    pub(super) fn memory(self) -> Style {
        self.colour(PINK)
    }

    pub(super) fn cost(self) -> Style {
        self.colour(GREEN)
    }

    pub(super) fn warning(self) -> Style {
        self.colour(ORANGE).add_modifier(Modifier::BOLD)
    }

    pub(super) fn state(self, state: State) -> Style {
        match state {
            State::Ready => Style::new(),
            State::Launching | State::Registering => self.colour(SKY),
            State::Draining => self.colour(ORANGE),
            State::Replaced => self.colour(PINK),
        }
    }

    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

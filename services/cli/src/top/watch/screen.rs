//! What the person looks at and how keys change it: pane, selection, sorting, filter and overlay. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::printable::printable;
use super::view::{Sort, View};

/// Rows that Page Up and Page Down move.
const PAGE: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Nodes,
    Pending,
    Drains,
}

impl Pane {
    fn next(self) -> Self {
        match self {
            Self::Nodes => Self::Pending,
            Self::Pending => Self::Drains,
            Self::Drains => Self::Nodes,
        }
    }

    fn previous(self) -> Self {
        self.next().next()
    }
}

/// A selected row. It is known by its key, so that it stays selected when rows move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) key: Option<String>,
    pub(super) index: usize,
    /// The first row in sight.
    pub(super) offset: usize,
}

impl Selection {
    /// Finds the row again; one that is gone is replaced by the row in its place.
    fn settle<'a>(
        &mut self,
        len: usize,
        mut keys: impl Iterator<Item = &'a str>,
        key_at: impl Fn(usize) -> &'a str,
    ) {
        if len == 0 {
            return *self = Self::default();
        }
        let found = self.key.as_deref().and_then(|own| keys.position(|key| key == own));
        self.index = found.unwrap_or_else(|| self.index.min(len - 1));
        self.key = Some(key_at(self.index).to_owned());
    }

    /// Moves the window so that the selected row is in sight.
    pub(super) fn scroll(&mut self, len: usize, height: usize) {
        self.offset = self.offset.min(len.saturating_sub(height)).min(self.index);
        if self.index >= self.offset + height {
            self.offset = self.index + 1 - height.max(1);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Overlay {
    Help,
    Explanation { node: String, lines: Vec<String>, scroll: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Draw again.
    Redraw,
    /// The rows change as well: another filter or order.
    Rebuild,
    Explain(String),
    Quit,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) pane: Pane,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Keys are text of the filter.
    pub(super) typing: bool,
    pub(super) nodes: Selection,
    pub(super) pending: Selection,
    pub(super) drains: Selection,
    pub(super) overlay: Option<Overlay>,
}

impl Screen {
    /// To be called whenever the rows have changed.
    pub(super) fn settle(&mut self, view: &View) {
        let View { nodes, pending, drains, .. } = view;
        self.nodes.settle(nodes.len(), nodes.iter().map(|row| row.key.as_str()), |i| &nodes[i].key);
        self.pending.settle(pending.len(), pending.iter().map(|row| row.key.as_str()), |i| &pending[i].key);
        self.drains.settle(drains.len(), drains.iter().map(|row| row.key.as_str()), |i| &drains[i].key);
    }

    /// The answer for a node that was to be explained. It is dropped when the person has closed the overlay meanwhile.
    pub(super) fn show_explanation(&mut self, about: &str, text: &str) {
        if let Some(Overlay::Explanation { node, lines, .. }) = &mut self.overlay
            && node == about
        {
            *lines = text.lines().map(printable).collect();
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent, view: &View) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Redraw;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'C')) {
            return Action::Quit;
        }
        if self.typing {
            return self.type_filter(key.code, control);
        }
        if self.overlay.is_some() {
            return self.press_in_overlay(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') => self.overlay = Some(Overlay::Help),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                return Action::Rebuild;
            }
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                return Action::Rebuild;
            }
            KeyCode::Tab => self.pane = self.pane.next(),
            KeyCode::BackTab => self.pane = self.pane.previous(),
            KeyCode::Char('e') | KeyCode::Enter => return self.explain(view),
            KeyCode::Up | KeyCode::Char('k') => self.select(view, |index| index.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(view, |index| index + 1),
            KeyCode::PageUp => self.select(view, |index| index.saturating_sub(PAGE)),
            KeyCode::PageDown => self.select(view, |index| index + PAGE),
            KeyCode::Home => self.select(view, |_| 0),
            KeyCode::End => self.select(view, |_| usize::MAX),
            _ => {}
        }
        Action::Redraw
    }

    fn type_filter(&mut self, code: KeyCode, control: bool) -> Action {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if !control && !c.is_control() => self.filter.push(c),
            _ => return Action::Redraw,
        }
        Action::Rebuild
    }

    fn press_in_overlay(&mut self, code: KeyCode) -> Action {
        match (code, &mut self.overlay) {
            (KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter | KeyCode::Char('e' | '?'), overlay) => {
                *overlay = None;
            }
            (KeyCode::Down | KeyCode::Char('j'), Some(Overlay::Explanation { lines, scroll, .. })) => {
                let last = u16::try_from(lines.len().saturating_sub(1)).unwrap_or(u16::MAX);
                *scroll = scroll.saturating_add(1).min(last);
            }
            (KeyCode::Up | KeyCode::Char('k'), Some(Overlay::Explanation { scroll, .. })) => {
                *scroll = scroll.saturating_sub(1);
            }
            _ => {}
        }
        Action::Redraw
    }

    /// The selected node, also where the pane shows its drain.
    fn explain(&mut self, view: &View) -> Action {
        let name = match self.pane {
            Pane::Nodes => view.nodes.get(self.nodes.index).map(|row| row.key.clone()),
            Pane::Drains => view.drains.get(self.drains.index).map(|row| row.key.clone()),
            Pane::Pending => None,
        };
        let Some(name) = name else { return Action::Redraw };
        let lines = vec!["asking disruption …".to_owned()];
        self.overlay = Some(Overlay::Explanation { node: name.clone(), lines, scroll: 0 });
        Action::Explain(name)
    }

    fn select(&mut self, view: &View, to: impl Fn(usize) -> usize) {
        let (selection, len) = match self.pane {
            Pane::Nodes => (&mut self.nodes, view.nodes.len()),
            Pane::Pending => (&mut self.pending, view.pending.len()),
            Pane::Drains => (&mut self.drains, view.drains.len()),
        };
        *selection = Selection {
            index: to(selection.index).min(len.saturating_sub(1)),
            key: None,
            offset: selection.offset,
        };
        self.settle(view);
    }
}

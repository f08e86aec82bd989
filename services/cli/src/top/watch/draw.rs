//! View model to screen: the cost line, three panes, the key line and overlays. Pure: the time is an argument.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};

use super::screen::{Overlay, Pane, Screen};
use super::tables::{self, CHROME};
use super::theme::Theme;
use super::view::{Cost, View, columns_over_time};
use super::{printable::printable, tables::price};

/// Screens at least this high have a taller sparkline.
const HIGH: u16 = 40;

const HELP: [&str; 11] = [
    "↑ ↓ j k      select a row; Page Up, Page Down, Home, End",
    "Tab          next pane: nodes, pending pods, drains",
    "s            sort nodes by cost, cpu, memory, age, name",
    "/            show only rows with this text; Enter keeps it, Esc clears it",
    "e Enter      explain the selected node: what keeps it, what would change that",
    "?            this help",
    "q Ctrl-C     quit",
    "",
    "CPU and MEMORY: requests of pods as a share of what is allocatable.",
    "$/HOUR is ? while the price is not known; sums leave it out.",
    "The line of cost covers the time since this command began.",
];

pub(super) fn draw(frame: &mut Frame<'_>, view: &View, screen: &mut Screen, theme: Theme, now: i64) {
    let area = frame.area();
    let spark = if area.height >= HIGH { 3 } else { 1 };
    let lost = u16::from(!view.lost.is_empty());
    let rest = area.height.saturating_sub(1 + spark + lost + 1);
    let share = |len: usize, pane: Pane| {
        let most = if screen.pane == pane { rest / 2 } else { rest / 4 };
        u16::try_from(len).unwrap_or(u16::MAX).saturating_add(CHROME).min(most.max(CHROME))
    };
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(spark),
        Constraint::Length(lost),
        Constraint::Fill(1),
        Constraint::Length(share(view.pending.len(), Pane::Pending)),
        Constraint::Length(share(view.drains.len(), Pane::Drains)),
        Constraint::Length(1),
    ]);
    let [cost_area, spark_area, lost_area, nodes, pending, drains, keys] = rows.areas(area);
    frame.render_widget(cost_line(&view.cost, theme), cost_area);
    sparkline(frame, spark_area, &view.cost, theme, now);
    if !view.lost.is_empty() {
        let text = format!("! not connected: {}", view.lost.join("; "));
        frame.render_widget(Paragraph::new(text).style(theme.warning()), lost_area);
    }
    let pane = screen.pane;
    tables::nodes(frame, nodes, view, screen, theme, now, pane == Pane::Nodes);
    tables::pending(frame, pending, view, screen, theme, now, pane == Pane::Pending);
    tables::drains(frame, drains, view, screen, theme, now, pane == Pane::Drains);
    frame.render_widget(key_line(screen, theme), keys);
    match &screen.overlay {
        Some(Overlay::Help) => overlay(frame, " Keys ".to_owned(), HELP.map(Line::from).to_vec(), 0),
        Some(Overlay::Explanation { node, lines, scroll }) => {
            let lines = lines.iter().map(|line| Line::from(line.as_str())).collect();
            overlay(frame, format!(" {} ", printable(node)), lines, *scroll);
        }
        None => {}
    }
}

fn cost_line(cost: &Cost, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("${:.4}/h", dollars(cost.now)), theme.heading())];
    spans.push(Span::raw(format!("  {} nodes", cost.nodes)));
    for (capacity_type, sum) in &cost.by_capacity_type {
        spans.push(Span::raw(format!("  {capacity_type} {}", price(*sum))));
    }
    if cost.unpriced > 0 {
        spans.push(Span::styled(format!("  {} without a price", cost.unpriced), theme.warning()));
    }
    Line::from(spans)
}

fn dollars(micro: i64) -> f64 {
    model::price::MicroDollars::new(micro).to_f64()
}

fn sparkline(frame: &mut Frame<'_>, area: Rect, cost: &Cost, theme: Theme, now: i64) {
    let data = columns_over_time(&cost.history, now, usize::from(area.width));
    frame.render_widget(Sparkline::default().data(data).style(theme.cost()), area);
}

fn key_line(screen: &Screen, theme: Theme) -> Line<'static> {
    let filter = printable(&screen.filter);
    if screen.typing {
        return Line::from(vec![Span::styled(format!("/{filter}▏"), theme.heading())]);
    }
    let keys = "q quit · ? help · Tab pane · s sort · / filter · e explain";
    if filter.is_empty() {
        return Line::styled(keys, theme.dim());
    }
    Line::from(vec![
        Span::styled(format!("filter “{filter}” · "), theme.warning()),
        Span::styled(keys, theme.dim()),
    ])
}

fn overlay(frame: &mut Frame<'_>, title: String, lines: Vec<Line<'_>>, scroll: u16) {
    let area = frame.area();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).max(area.height * 3 / 5);
    let (width, height) = (area.width.saturating_sub(4).min(110), height.min(area.height.saturating_sub(2)));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0));
    frame.render_widget(Clear, place);
    frame.render_widget(text.block(Block::bordered().title(title)), place);
}

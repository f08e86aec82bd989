//! The three panes as tables: nodes, pending pods and drains. Only rows in sight are made. Pure.

use jiff::Timestamp;
use model::price::MicroDollars;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, TableState};

use super::screen::{Screen, Selection};
use super::theme::Theme;
use super::view::{NodeRow, View, percent};
use crate::age;

/// Cells of a bar.
const BAR: usize = 8;
/// Cells of borders and the heading of a pane.
pub(super) const CHROME: u16 = 3;

/// A column of the nodes: heading, width, and how wide the pane must be for it.
struct Column {
    heading: &'static str,
    width: Constraint,
    from: u16,
    cell: fn(&NodeRow, Theme, i64) -> Cell<'static>,
}

const COLUMNS: [Column; 10] = [
    Column {
        heading: "NODE",
        width: Constraint::Fill(3),
        from: 0,
        cell: |row, _, _| Cell::from(row.name.clone()),
    },
    Column {
        heading: "CPU",
        width: Constraint::Length(13),
        from: 0,
        cell: |row, theme, _| bar(row.cpu, theme.cpu()),
    },
    Column {
        heading: "MEMORY",
        width: Constraint::Length(13),
        from: 0,
        cell: |row, theme, _| bar(row.memory, theme.memory()),
    },
    Column {
        heading: "$/HOUR",
        width: Constraint::Length(8),
        from: 0,
        cell: |row, _, _| Cell::from(Line::from(price(row.price)).right_aligned()),
    },
    Column {
        heading: "AGE",
        width: Constraint::Length(4),
        from: 0,
        cell: |row, _, now| Cell::from(since(row.created, now)),
    },
    Column {
        heading: "NODEPOOL",
        width: Constraint::Fill(1),
        from: 120,
        cell: |row, _, _| Cell::from(row.pool.clone()),
    },
    Column {
        heading: "TYPE",
        width: Constraint::Length(14),
        from: 100,
        cell: |row, _, _| Cell::from(row.instance_type.clone()),
    },
    Column {
        heading: "ZONE",
        width: Constraint::Length(12),
        from: 120,
        cell: |row, _, _| Cell::from(row.zone.clone()),
    },
    Column {
        heading: "CAPACITY",
        width: Constraint::Length(9),
        from: 120,
        cell: |row, _, _| Cell::from(row.capacity_type.clone()),
    },
    Column {
        heading: "STATE",
        width: Constraint::Length(14),
        from: 0,
        cell: |row, theme, _| Cell::from(row.state.label()).style(theme.state(row.state)),
    },
];

/// Dollars per hour; what is not known is no number.
pub(super) fn price(micro_dollars: i64) -> String {
    if micro_dollars == 0 {
        "?".to_owned()
    } else {
        format!("{:.4}", MicroDollars::new(micro_dollars).to_f64())
    }
}

fn since(at: Option<i64>, now: i64) -> String {
    let time = |seconds| Timestamp::from_second(seconds).ok();
    at.and_then(time).zip(time(now)).map(|(at, now)| age::since(at, now)).unwrap_or_default()
}

/// Requests as filled cells of what is allocatable, and in percent.
fn bar(amounts: [i64; 2], style: ratatui::style::Style) -> Cell<'static> {
    let Some(share) = percent(amounts) else { return Cell::from("-") };
    let full = usize::try_from((share * BAR as u64).div_ceil(100)).unwrap_or(BAR).min(BAR);
    Cell::from(Line::from(vec![
        Span::styled("█".repeat(full), style),
        Span::raw("░".repeat(BAR - full)),
        Span::raw(format!("{share:>4}%")),
    ]))
}

pub(super) fn nodes(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &View,
    screen: &mut Screen,
    theme: Theme,
    now: i64,
    focused: bool,
) {
    let shown: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    // The last line of the pane is about the selected node.
    let height = usize::from(area.height.saturating_sub(CHROME + 1));
    let selection = &mut screen.nodes;
    selection.scroll(view.nodes.len(), height);
    let rows = visible(&view.nodes, selection, height)
        .iter()
        .map(|row| Row::new(shown.iter().map(|column| (column.cell)(row, theme, now))));
    let headings = shown.iter().map(|column| column.heading);
    let widths: Vec<Constraint> = shown.iter().map(|column| column.width).collect();
    let title = if view.nodes.len() == view.cost.nodes {
        format!(" Nodes ({}) by {} ", view.nodes.len(), screen.sort.label())
    } else {
        format!(" Nodes ({} of {}) by {} ", view.nodes.len(), view.cost.nodes, screen.sort.label())
    };
    let table = Table::new(rows, widths)
        .header(Row::new(headings).style(theme.heading()))
        .block(block(title, focused, theme))
        .row_highlight_style(theme.selected());
    let mut state = TableState::new();
    state.select(view.nodes.get(selection.index).map(|_| selection.index - selection.offset));
    frame.render_stateful_widget(table, area, &mut state);
    let inside = Rect { y: area.bottom().saturating_sub(2), height: 1, ..inner(area) };
    let text = match view.nodes.get(selection.index) {
        Some(row) => detail(row),
        None if !view.seen => "waiting for the provisioner".to_owned(),
        None if screen.filter.is_empty() => "no nodes".to_owned(),
        None => format!("no node has “{}”; Esc clears the filter", screen.filter),
    };
    frame.render_widget(Paragraph::new(text).style(theme.dim()), inside);
}

/// The selected node: what narrow screens have no column for, and what it waits for.
fn detail(row: &NodeRow) -> String {
    let NodeRow { instance_type, capacity_type, zone, pool, waits, .. } = row;
    let unknown = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
    let [kind, cap, zone] = [instance_type, capacity_type, zone].map(|text| unknown(text));
    let waits = if waits.is_empty() { String::new() } else { format!(" · {waits}") };
    format!("{kind} {cap} {zone} · {pool}{waits}")
}

pub(super) fn pending(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &View,
    screen: &mut Screen,
    theme: Theme,
    now: i64,
    focused: bool,
) {
    let cells = |row: &super::view::PodRow| [row.name.clone(), since(row.since, now), row.reason.clone()];
    let widths = [Constraint::Fill(2), Constraint::Length(5), Constraint::Fill(3)];
    let title = format!(" Pending pods ({}) ", view.pending.len());
    let pane = Pane { title, headings: ["POD", "FOR", "WHY"], widths, focused };
    render(frame, area, &view.pending, &mut screen.pending, pane, theme, cells);
}

pub(super) fn drains(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &View,
    screen: &mut Screen,
    theme: Theme,
    now: i64,
    focused: bool,
) {
    let cells = |row: &super::view::DrainRow| {
        let [node, reason, progress] = [&row.node, &row.reason, &row.progress].map(String::clone);
        [node, since(row.since, now), progress, reason, row.blocked_by.clone()]
    };
    // A narrow screen has no column for the reason.
    let reason = if area.width >= 100 { 14 } else { 0 };
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(5),
        Constraint::Length(20),
        Constraint::Length(reason),
        Constraint::Fill(3),
    ];
    let title = format!(" Drains ({}) ", view.drains.len());
    let pane =
        Pane { title, headings: ["NODE", "FOR", "PODS GONE", "REASON", "BLOCKED BY"], widths, focused };
    render(frame, area, &view.drains, &mut screen.drains, pane, theme, cells);
}

struct Pane<const N: usize> {
    title: String,
    headings: [&'static str; N],
    widths: [Constraint; N],
    focused: bool,
}

fn render<T, const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    all: &[T],
    selection: &mut Selection,
    pane: Pane<N>,
    theme: Theme,
    cells: impl Fn(&T) -> [String; N],
) {
    let height = usize::from(area.height.saturating_sub(CHROME));
    selection.scroll(all.len(), height);
    let rows = visible(all, selection, height).iter().map(|row| Row::new(cells(row)));
    let table = Table::new(rows, pane.widths)
        .header(Row::new(pane.headings).style(theme.heading()))
        .block(block(pane.title, pane.focused, theme))
        .row_highlight_style(theme.selected());
    let mut state = TableState::new();
    state.select((pane.focused && !all.is_empty()).then(|| selection.index - selection.offset));
    frame.render_stateful_widget(table, area, &mut state);
}

fn visible<'a, T>(all: &'a [T], selection: &Selection, height: usize) -> &'a [T] {
    &all[selection.offset..all.len().min(selection.offset + height)]
}

fn block(title: String, focused: bool, theme: Theme) -> Block<'static> {
    if focused {
        Block::bordered()
            .title(Span::styled(title, theme.heading()))
            .border_type(ratatui::widgets::BorderType::Thick)
    } else {
        Block::bordered().title(title).border_style(theme.dim())
    }
}

fn inner(area: Rect) -> Rect {
    Rect { x: area.x.saturating_add(1), width: area.width.saturating_sub(2), ..area }
}

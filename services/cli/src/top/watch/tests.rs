//! The screen as a person sees it, from the state that the streams leave.

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::draw::draw;
use super::lines::Lines;
use super::screen::{Action, Overlay, Pane, Screen};
use super::theme::Theme;
use super::view::{Sort, View, columns_over_time};
use crate::ui::picture::Picture;
use crate::ui::shown::{Decision, Drain, Node, Pending, Sample, ServiceState};

const NOW: i64 = 1_790_000_000;

fn node(pool: &str, price: i64, cpu: i64, memory: i64) -> Node {
    Node {
        claim: "set below".to_owned(),
        pool: pool.to_owned(),
        kind: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        cap: "on-demand".to_owned(),
        price,
        cpu: [cpu, 2000],
        mem: [memory, 8000],
        phase: "initialised".to_owned(),
        created: Some(NOW - 300),
        ..Node::default()
    }
}

fn picture(nodes: impl IntoIterator<Item = (String, Node)>) -> Picture {
    let with_claim = |(name, node): (String, Node)| {
        let claim = format!("{name}-claim");
        (name, Arc::new(Node { claim, ..node }))
    };
    let mut picture = Picture::default();
    picture.nodes = nodes.into_iter().map(with_claim).collect();
    picture.seen = true;
    picture
}

fn three() -> Picture {
    picture([
        ("a".to_owned(), node("default", 96_000, 500, 6000)),
        ("b".to_owned(), Node { created: Some(NOW - 9000), ..node("batch", 192_000, 1000, 2000) }),
        ("c".to_owned(), Node { cap: "spot".to_owned(), ..node("batch", 29_800, 1900, 400) }),
    ])
}

fn busy() -> Picture {
    let mut picture = three();
    let launching =
        Node { phase: "launched".into(), waits: "the node to register".into(), ..node("default", 0, 0, 0) };
    picture.nodes.insert("new-claim".into(), Arc::new(Node { claim: "new-claim".into(), ..launching }));
    let pod = |name: &str, reason: &str, nominated: &str| Pending {
        namespace: "shop".into(),
        name: name.into(),
        since: Some(NOW - 42),
        nominated: nominated.into(),
        reason: reason.into(),
    };
    picture.pending.insert("u1".into(), Arc::new(pod("huge", "no instance type has 900 CPUs", "")));
    picture.pending.insert("u2".into(), Arc::new(pod("web", "", "new-claim")));
    let drain = Drain {
        node: "a".into(),
        phase: "draining",
        reason: "Drifted".into(),
        since: Some(NOW - 60),
        deadline: None,
        total: 4,
        gone: 1,
        waiting: vec![("pdb".into(), "shop/db-0".into(), "PDB shop/db allows 0 disruptions".into())],
    };
    picture.drains.insert("a-claim".into(), Arc::new(drain));
    let command = Decision {
        kind: "disruption",
        reason: "Underutilized".into(),
        phase: "replacing".into(),
        detail: "waits for new-claim".into(),
        remove: vec!["b".into()],
        ..Decision::default()
    };
    picture.decisions.insert("command/1".into(), Arc::new(command));
    let lost =
        ServiceState { state: "lost", detail: "connection refused; asking again in 4 s".into(), since: NOW };
    picture.services.insert("termination".into(), Arc::new(lost));
    picture.history = vec![
        Sample { at: NOW - 100, by: vec![("batch".into(), "spot".into(), 100_000)], ..Sample::default() },
        Sample { at: NOW - 50, by: vec![("batch".into(), "spot".into(), 800_000)], ..Sample::default() },
    ];
    picture
}

struct Shown {
    text: String,
    colours: Vec<Color>,
}

fn drawn(view: &View, screen: &mut Screen, (width, height): (u16, u16), colours: bool) -> Shown {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    screen.settle(view);
    terminal.draw(|frame| draw(frame, view, screen, Theme { colours }, NOW)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Shown { text, colours: buffer.content().iter().map(|cell| cell.fg).collect() }
}

fn text(picture: &Picture, size: (u16, u16)) -> String {
    let view = View::new(picture, "", "", Sort::Cost);
    drawn(&view, &mut Screen::default(), size, true).text
}

fn press(screen: &mut Screen, view: &View, code: KeyCode) -> Action {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE), view)
}

fn names(view: &View) -> Vec<&str> {
    view.nodes.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn a_small_screen_has_everything_that_matters() {
    let shown = text(&busy(), (80, 24));
    let expected = "\
$0.3178/h  4 nodes  on-demand 0.2880  spot 0.0298  1 without a price";
    assert_eq!(shown.lines().next(), Some(expected), "{shown}");
    for part in [
        "! not connected: termination: lost, connection refused; asking again in 4 s",
        "Nodes (4) by cost",
        "NODE",
        "████░░░░  50%",
        "being replaced",
        "draining",
        "launching",
        "0.1920",
        "Pending pods (2)",
        "shop/huge",
        "no instance type has 900 CPUs",
        "Drains (1)",
        "1/4 draining",
        "[pdb] shop/db-0:",
        "m5.large on-demand us-east-1a · batch · Underutilized: replacing, waits for",
        "q quit",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains("ZONE"), "a column that does not fit:\n{shown}");
}

#[test]
fn a_large_screen_has_every_column() {
    let shown = text(&busy(), (160, 50));
    let heading = shown.lines().find(|line| line.contains("NODEPOOL")).unwrap();
    let columns = ["NODE", "CPU", "MEMORY", "$/HOUR", "AGE", "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "STATE"];
    assert!(columns.iter().all(|column| heading.contains(column)), "{heading}");
    let row = shown.lines().find(|line| line.contains("0.1920")).unwrap();
    for part in
        ["b ", "25%", "50%", "0.1920", "2h", "batch", "m5.large", "us-east-1a", "on-demand", "being replaced"]
    {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    assert!(shown.contains("nominated for node new-claim"), "{shown}");
    assert!(shown.contains("[pdb] shop/db-0: PDB shop/db allows 0 disruptions"), "{shown}");
}

#[test]
fn an_empty_cluster_and_one_that_is_not_known_yet_are_two_things() {
    let shown = text(&picture([]), (80, 24));
    assert!(shown.contains("Nodes (0)") && shown.contains("no nodes"), "{shown}");
    assert!(text(&Picture::default(), (80, 24)).contains("waiting for the provisioner"));
    for size in [(1, 1), (5, 3), (20, 6), (300, 2)] {
        text(&busy(), size);
    }
}

#[test]
fn of_five_thousand_nodes_those_in_sight_are_drawn() {
    let many = (0..5000).map(|n| (format!("node-{n:04}"), node("default", 96_000, n % 2000, 0)));
    let view = View::new(&picture(many), "", "", Sort::Name);
    let mut screen = Screen::default();
    let first = drawn(&view, &mut screen, (80, 24), true).text;
    let in_sight = |text: &str| text.lines().filter(|line| line.contains("node-")).count();
    assert!(first.contains("Nodes (5000)") && first.contains("node-0000"), "{first}");
    assert!((5..24).contains(&in_sight(&first)), "{first}");
    assert_eq!(press(&mut screen, &view, KeyCode::End), Action::Redraw);
    let last = drawn(&view, &mut screen, (80, 24), true).text;
    assert!(last.contains("node-4999") && !last.contains("node-0000"), "{last}");
    let step_back = press(&mut screen, &view, KeyCode::Char('k'));
    assert_eq!((step_back, screen.nodes.key.as_deref()), (Action::Redraw, Some("node-4998")));
}

#[test]
fn hostile_names_cannot_steer_the_terminal() {
    let evil = "a\u{1b}[2J\u{1b}]0;owned\u{7}\r\nb\u{202e}";
    let mut picture = picture([(
        evil.to_owned(),
        Node { waits: evil.into(), phase: "launched".into(), ..node(evil, 1, 1, 1) },
    )]);
    let pod = Pending {
        namespace: evil.into(),
        name: evil.into(),
        since: None,
        nominated: String::new(),
        reason: evil.into(),
    };
    picture.pending.insert(evil.into(), Arc::new(pod));
    let lost = ServiceState { state: "lost", detail: evil.into(), since: 0 };
    picture.services.insert("disruption".into(), Arc::new(lost));
    let view = View::new(&picture, "", "", Sort::Cost);
    let mut screen = Screen::default();
    screen.settle(&view);
    assert_eq!(
        press(&mut screen, &view, KeyCode::Enter),
        Action::Explain(evil.to_owned()),
        "the service's own name"
    );
    screen.show_explanation(evil, &format!("{evil} stays"));
    let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    let shown = drawn(&view, &mut screen, (160, 50), true).text;
    assert!(!shown.contains(steers), "{shown:?}");
    // What the view model holds is clean already: nothing relies on the library to drop it.
    assert_eq!(view.nodes[0].name, "a�[2J�]0;owned���b�");
    let mut out = Vec::new();
    Lines::default().print(&mut out, &view, false).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("owned") && !out.contains(steers), "{out:?}");
}

#[test]
fn each_order_puts_its_largest_first_and_s_goes_through_them() {
    let mut screen = Screen::default();
    let mut orders = Vec::new();
    for _ in 0..5 {
        let view = View::new(&three(), "", "", screen.sort);
        orders.push((screen.sort.label(), names(&view).concat()));
        assert_eq!(press(&mut screen, &view, KeyCode::Char('s')), Action::Rebuild);
    }
    let expected = [("cost", "bac"), ("cpu", "cba"), ("memory", "abc"), ("age", "bac"), ("name", "abc")];
    assert_eq!(orders, expected.map(|(label, names)| (label, names.to_owned())));
    assert_eq!(screen.sort, Sort::Cost);
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut screen = Screen::default();
    let all = View::new(&three(), "", "", Sort::Cost);
    assert_eq!(press(&mut screen, &all, KeyCode::Char('/')), Action::Redraw);
    for letter in "SPOq".chars() {
        assert_eq!(press(&mut screen, &all, KeyCode::Char(letter)), Action::Rebuild, "q is text here");
    }
    press(&mut screen, &all, KeyCode::Backspace);
    press(&mut screen, &all, KeyCode::Enter);
    assert_eq!((screen.filter.as_str(), screen.typing), ("SPO", false));
    let view = View::new(&three(), "", &screen.filter, screen.sort);
    assert_eq!(names(&view), ["c"]);
    let shown = drawn(&view, &mut screen, (80, 24), true).text;
    assert!(shown.contains("Nodes (1 of 3)") && shown.contains("filter “SPO”"), "{shown}");
    assert!(shown.contains("$0.3178/h"), "the sum is of all nodes: {shown}");
    assert_eq!(press(&mut screen, &view, KeyCode::Esc), Action::Rebuild);
    assert_eq!(screen.filter, "");
    assert_eq!(names(&View::new(&three(), "batch", "", Sort::Name)), ["b", "c"], "--nodepool");
}

#[test]
fn the_selection_follows_its_node_when_rows_move_or_go() {
    let mut screen = Screen::default();
    let mut picture = three();
    let view = View::new(&picture, "", "", Sort::Cost);
    screen.settle(&view);
    press(&mut screen, &view, KeyCode::Down);
    assert_eq!((screen.nodes.key.as_deref(), screen.nodes.index), (Some("a"), 1));
    picture.nodes.insert("d".into(), Arc::new(Node { claim: "d".into(), ..node("default", 900_000, 1, 1) }));
    screen.settle(&View::new(&picture, "", "", Sort::Cost));
    assert_eq!((screen.nodes.key.as_deref(), screen.nodes.index), (Some("a"), 2));
    picture.nodes.remove("a");
    screen.settle(&View::new(&picture, "", "", Sort::Cost));
    assert_eq!((screen.nodes.key.as_deref(), screen.nodes.index), (Some("c"), 2), "the row in its place");
    screen.settle(&View::new(&Picture::default(), "", "", Sort::Cost));
    assert_eq!(screen.nodes.key, None);
}

#[test]
fn tab_changes_the_pane_and_a_drain_is_explained_by_its_claim() {
    let view = View::new(&busy(), "", "", Sort::Cost);
    let mut screen = Screen::default();
    screen.settle(&view);
    assert_eq!(press(&mut screen, &view, KeyCode::Char('e')), Action::Explain("b".to_owned()));
    screen.show_explanation("b", "it stays: a PDB holds it");
    assert!(drawn(&view, &mut screen, (80, 24), true).text.contains("it stays: a PDB holds it"));
    assert_eq!(press(&mut screen, &view, KeyCode::Char('q')), Action::Redraw, "closes the overlay only");
    screen.show_explanation("b", "too late");
    assert_eq!(screen.overlay, None);
    press(&mut screen, &view, KeyCode::Tab);
    assert_eq!((screen.pane, press(&mut screen, &view, KeyCode::Enter)), (Pane::Pending, Action::Redraw));
    press(&mut screen, &view, KeyCode::Tab);
    assert_eq!(press(&mut screen, &view, KeyCode::Enter), Action::Explain("a-claim".to_owned()));
    screen.overlay = None;
    press(&mut screen, &view, KeyCode::Char('?'));
    assert_eq!(screen.overlay, Some(Overlay::Help));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.press(control_c, &view), Action::Quit);
}

#[test]
fn without_colours_there_are_none_and_the_words_are_the_same() {
    let view = View::new(&busy(), "", "", Sort::Cost);
    let plain = drawn(&view, &mut Screen::default(), (160, 50), false);
    let coloured = drawn(&view, &mut Screen::default(), (160, 50), true);
    assert_eq!(plain.text, coloured.text);
    assert!(plain.colours.iter().all(|colour| *colour == Color::Reset));
    assert!(coloured.colours.iter().any(|colour| *colour != Color::Reset));
}

#[test]
fn cost_over_time_has_the_value_at_the_end_of_each_span() {
    let history = [(0, 10), (50, 80), (90, 20)];
    assert_eq!(columns_over_time(&history, 100, 4), [10, 80, 80, 20]);
    assert_eq!(columns_over_time(&history[..1], 0, 2), [10, 10]);
    assert_eq!(columns_over_time(&[], 100, 4), Vec::<u64>::new());
}

#[test]
fn without_a_screen_each_change_is_one_line() {
    let mut lines = Lines::default();
    let mut picture = three();
    let mut printed = |picture: &Picture, json: bool| {
        let mut out = Vec::new();
        lines.print(&mut out, &View::new(picture, "", "", Sort::Name), json).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(printed(&picture, false).lines().count(), 3);
    assert_eq!(printed(&picture, false), "");
    picture.nodes.insert(
        "c".into(),
        Arc::new(Node { claim: "c".into(), phase: "deleting".into(), ..node("batch", 29_800, 0, 0) }),
    );
    picture.nodes.remove("b");
    let expected = "\
b  batch  m5.large  us-east-1a  on-demand  cpu 50% memory 25% $0.1920/h  gone
c  batch  m5.large  us-east-1a  on-demand  cpu 0% memory 0% $0.0298/h  draining: is being deleted
";
    assert_eq!(printed(&picture, false), expected);
    picture.nodes.remove("a");
    let gone: serde_json::Value = serde_json::from_str(&printed(&picture, true)).unwrap();
    assert_eq!(
        (&gone["node"], &gone["state"], &gone["pricePerHour"]),
        (&"a".into(), &"gone".into(), &0.096.into())
    );
}

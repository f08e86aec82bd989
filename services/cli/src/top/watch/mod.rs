//! `kubectl karpenter top --watch`: a full screen that follows the cluster; lines where there is no terminal.
//!
//! ```text
//!  ui::follow ──> ui::hub ──> view (rows) ──> draw (screen)
//!                                 ▲
//!                       keys ──> screen (selection, order, filter)
//! ```
//! The streams and the merged state are those of the live page. This file is the shell: terminal, keys, time. The rest is pure.

mod draw;
mod lines;
mod node_state;
mod printable;
mod screen;
mod tables;
#[cfg(test)]
mod tests;
mod theme;
mod view;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use runtime::Service;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Args, Output};
use crate::explain;
use crate::ui::Sources;
use crate::ui::follow;
use crate::ui::hub::Hub;
use lines::Lines;
use screen::{Action, Screen};
use theme::Theme;
use view::{Sort, View};

/// Changes within this time are drawn as one.
const FRAME: Duration = Duration::from_millis(100);
/// Ages go on although nothing changes.
const AGES: Duration = Duration::from_secs(1);
/// Keys that may wait to be handled.
const KEYS: usize = 64;

pub(super) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let on_screen = args.output == Output::Table && io::stdout().is_terminal();
    let outcome = runtime.block_on(async {
        let hub = Arc::new(Hub::new(None, true));
        let sources = args.sources();
        let followers = follow::all(&sources, &hub);
        tokio::select! {
            outcome = follow_on(args, sources, &hub, on_screen) => outcome,
            outcome = first_end(followers) => outcome,
            outcome = stop_signal() => outcome,
        }
    });
    // The thread that reads keys cannot be stopped; it ends with the process.
    runtime.shutdown_background();
    outcome
}

async fn follow_on(args: &Args, sources: Sources, hub: &Hub, on_screen: bool) -> Result<()> {
    let pool = args.nodepool.clone().unwrap_or_default();
    if on_screen { show(args, sources, hub, &pool).await } else { print(args, hub, &pool).await }
}

/// Followers never end by themselves: one that does has panicked.
async fn first_end(mut followers: JoinSet<()>) -> Result<()> {
    followers.join_next().await.context("nothing is followed")?.context("follow a service")?;
    bail!("a service is not followed any more")
}

async fn stop_signal() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = hang_up.recv() => Ok(()),
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
        }
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}

async fn print(args: &Args, hub: &Hub, pool: &str) -> Result<()> {
    let mut changes = hub.changes();
    let mut lines = Lines::default();
    let mut lost = Vec::new();
    loop {
        let view = View::new(&hub.picture(), pool, "", Sort::Name);
        lines.print(&mut io::stdout().lock(), &view, args.output == Output::Json)?;
        for each in view.lost.iter().filter(|each| !lost.contains(*each)) {
            eprintln!("{each}");
        }
        lost = view.lost;
        changes.changed().await?;
        tokio::time::sleep(FRAME).await;
        changes.mark_unchanged();
    }
}

/// Gives the terminal back however the command ends; after a panic the hook of `try_init` has done so already.
struct Restored(DefaultTerminal);

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn show(args: &Args, sources: Sources, hub: &Hub, pool: &str) -> Result<()> {
    let mut changes = hub.changes();
    let mut explaining: JoinSet<(String, String)> = JoinSet::new();
    let mut screen = Screen::default();
    let theme = Theme { colours: args.no_color.as_ref().is_none_or(String::is_empty) };
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => Restored(terminal),
        Err(error) => {
            ratatui::restore();
            return Err(error)
                .context("prepare the terminal; `top` without --watch and `top -o json` need none");
        }
    };
    let mut keys = read_keys();
    let rows = |screen: &Screen| View::new(&hub.picture(), pool, &screen.filter, screen.sort);
    let mut view = rows(&screen);
    let (mut drawn, mut due, mut stale) = (Instant::now(), Instant::now(), true);
    loop {
        tokio::select! {
            event = keys.recv() => {
                let event = event.context("the terminal has no more keys")?.context("read a key")?;
                due = Instant::now();
                let Event::Key(key) = event else { continue };
                match screen.press(key, &view) {
                    Action::Quit => return Ok(()),
                    Action::Redraw => {}
                    Action::Rebuild => stale = true,
                    Action::Explain(node) => drop(explaining.spawn(explain(sources.clone(), node))),
                }
                // Keys that follow at once are about the rows as they are now.
                if stale {
                    view = rows(&screen);
                    screen.settle(&view);
                    stale = false;
                }
            }
            changed = changes.changed() => {
                changed?;
                stale = true;
                due = due.min(drawn + FRAME);
            }
            Some(answer) = explaining.join_next() => {
                let (node, text) = answer.context("explain a node")?;
                screen.show_explanation(&node, &text);
                due = Instant::now();
            }
            () = tokio::time::sleep_until(due) => {
                if stale {
                    view = rows(&screen);
                    screen.settle(&view);
                    stale = false;
                }
                let now = Timestamp::now().as_second();
                terminal.0.draw(|frame| draw::draw(frame, &view, &mut screen, theme, now))?;
                drawn = Instant::now();
                due = drawn + AGES;
            }
        }
    }
}

/// What `explain node` prints, or why it cannot.
async fn explain(sources: Sources, node: String) -> (String, String) {
    let answer = async {
        let transport = sources.transport(Service::Disruption).await?;
        explain::describe_node(transport, &node).await
    };
    let text = answer.await.unwrap_or_else(|error| format!("{error:#}"));
    (node, text)
}

fn read_keys() -> mpsc::Receiver<io::Result<Event>> {
    let (send, receive) = mpsc::channel(KEYS);
    std::thread::spawn(move || {
        loop {
            let read = event::read();
            let failed = read.is_err();
            if send.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    receive
}

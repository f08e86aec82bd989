//! `--watch`: the stream of changes, shown as it comes. On a terminal the table is drawn anew, elsewhere lines are added.
//! A replica that stops does not end it: the next one is asked.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use proto::termination::v1::WatchDrainRequest;
use tokio::time::Instant;

use super::rows::{Drain, Phase};
use super::{Args, Output, table};
use crate::connect::explain;

/// Changes within this time are drawn as one.
const FRAME: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_secs(1);
/// One that is gone stays in sight this long.
const AFTERGLOW: Duration = Duration::from_secs(3);
/// Clears the screen and what scrolled off it, and goes to its corner.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// How the stream ended.
enum End {
    /// The one that was named is gone, or never was.
    Done,
    /// The replica went away.
    Lost(tonic::Status),
}

pub(super) async fn follow(args: &Args) -> Result<()> {
    let mut screen = Screen::new(args);
    // The first failure ends the command; later ones are retried.
    let mut client = args.client().await?;
    let mut begun = false;
    loop {
        let name = args.name.clone().unwrap_or_default();
        let request = WatchDrainRequest { name, ..WatchDrainRequest::default() };
        let end = match client.watch_drain(request).await {
            Ok(stream) => {
                begun = true;
                show(stream.into_inner(), &mut screen).await?
            }
            Err(status) if begun => End::Lost(status),
            Err(status) => return Err(explain(&status)),
        };
        match end {
            End::Done => return screen.finish(),
            End::Lost(status) if is_passing(&status) => {
                eprintln!("lost the connection ({}); reconnecting", status.message());
                screen.forget();
            }
            End::Lost(status) => return Err(explain(&status)),
        }
        loop {
            tokio::time::sleep(AGAIN).await;
            match args.client().await {
                Ok(next) => {
                    client = next;
                    break;
                }
                Err(error) => eprintln!("{error:#}; retrying"),
            }
        }
    }
}

fn is_passing(status: &tonic::Status) -> bool {
    use tonic::Code;
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled)
}

async fn show(
    mut stream: tonic::Streaming<proto::termination::v1::WatchDrainResponse>,
    screen: &mut Screen<'_>,
) -> Result<End> {
    let mut frame: Option<Instant> = Some(Instant::now() + FRAME);
    loop {
        tokio::select! {
            message = stream.message() => match message {
                Ok(Some(change)) => {
                    if let Some(drain) = change.drain {
                        screen.take(Drain::from(drain))?;
                        frame.get_or_insert_with(|| Instant::now() + FRAME);
                    }
                }
                Ok(None) => return Ok(End::Done),
                Err(status) => return Ok(End::Lost(status)),
            },
            () = tokio::time::sleep_until(frame.unwrap_or_else(Instant::now)), if frame.is_some() => {
                frame = screen.draw()?;
            }
        }
    }
}

/// What a person looks at.
struct Screen<'a> {
    args: &'a Args,
    live: bool,
    anything: bool,
    drains: BTreeMap<String, (Drain, Option<Instant>)>,
}

impl<'a> Screen<'a> {
    fn new(args: &'a Args) -> Self {
        let live = args.output == Output::Table && io::stdout().is_terminal();
        Self { args, live, anything: false, drains: BTreeMap::new() }
    }

    fn take(&mut self, drain: Drain) -> Result<()> {
        if !self.args.wants(&drain) {
            return Ok(());
        }
        self.anything = true;
        if !self.live {
            return self.add(&drain);
        }
        let gone = (drain.phase == Phase::Gone).then(|| Instant::now() + AFTERGLOW);
        self.drains.insert(drain.key(), (drain, gone));
        Ok(())
    }

    fn add(&self, drain: &Drain) -> Result<()> {
        let mut out = io::stdout().lock();
        match self.args.output {
            Output::Json => {
                serde_json::to_writer(&mut out, drain)?;
                writeln!(out)?;
            }
            Output::Table => table::append(&mut out, drain, self.args.waits_shown(), Timestamp::now())?,
        }
        out.flush()?;
        Ok(())
    }

    /// Draws the table; returns when to draw again although nothing comes.
    fn draw(&mut self) -> Result<Option<Instant>> {
        if !self.live {
            return Ok(None);
        }
        let now = Instant::now();
        self.drains.retain(|_, (_, gone)| gone.is_none_or(|until| now < until));
        let mut shown: Vec<Drain> = self.drains.values().map(|(drain, _)| drain.clone()).collect();
        shown.sort_by_key(|each| (each.since, each.key()));
        let mut out = io::stdout().lock();
        write!(out, "{CLEAR}")?;
        if shown.is_empty() {
            writeln!(out, "no node is being removed")?;
        } else {
            table::print(&mut out, &shown, self.args.waits_shown(), Timestamp::now())?;
        }
        out.flush()?;
        Ok(self.drains.values().filter_map(|(_, gone)| *gone).min())
    }

    /// Another replica tells everything from the start.
    fn forget(&mut self) {
        self.drains.clear();
    }

    fn finish(mut self) -> Result<()> {
        self.draw()?;
        if !self.anything {
            eprintln!("{} is not being removed", self.args.name.as_deref().unwrap_or("no node"));
        }
        Ok(())
    }
}

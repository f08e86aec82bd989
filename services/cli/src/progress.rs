//! What is being done, on standard error, for anything that takes about a second or longer.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_millis(800);
const PACE: Duration = Duration::from_secs(1);
/// On a log, a line now and then is enough.
const PACE_WITHOUT_TERMINAL: Duration = Duration::from_secs(10);

/// Runs `work`, and shows `doing` while it takes time.
pub(crate) fn while_running<T>(doing: &str, work: impl FnOnce() -> T) -> T {
    let progress = Progress::start();
    progress.now(doing);
    work()
}

/// Shows what is being done, until dropped.
pub(crate) struct Progress {
    tell: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn start() -> Self {
        let (tell, told) = channel::<String>();
        let terminal = std::io::stderr().is_terminal();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut doing = String::new();
            let mut wait = PATIENCE;
            let mut shown = false;
            loop {
                match told.recv_timeout(wait) {
                    Ok(next) => {
                        doing = next;
                        wait = PATIENCE.saturating_sub(began.elapsed()).max(Duration::from_millis(50));
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        shown = true;
                        wait = if terminal { PACE } else { PACE_WITHOUT_TERMINAL };
                        let seconds = began.elapsed().as_secs();
                        let (before, after) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
                        let mut out = std::io::stderr().lock();
                        // Nobody to tell is no reason to stop.
                        let _ = write!(out, "{before}{doing}: {seconds} s{after}").and_then(|()| out.flush());
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            if shown && terminal {
                eprint!("\r\x1b[K");
            }
        });
        Self { tell: Some(tell), thread: Some(thread) }
    }

    pub(crate) fn now(&self, doing: &str) {
        if let Some(tell) = &self.tell {
            // The thread ends only after this sender is gone.
            let _ = tell.send(doing.to_owned());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

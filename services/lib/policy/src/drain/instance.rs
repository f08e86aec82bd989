//! What is known of the instance behind a node, and what may be concluded from it.

/// Knowledge, not state: it starts as `Unasked` after every restart, and only a clean answer of EC2 moves it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Instance {
    #[default]
    Unasked,
    /// Asked, no clean answer yet; the last error if there was one.
    Asking(Option<String>),
    /// It exists and is ours.
    Running,
    /// EC2 accepted to end it; it may still run.
    Ending,
    /// EC2 knows it no more, or reports it as terminated.
    Gone,
    /// It must not be touched: not provably ours. Why, as a sentence.
    Untouchable(String),
}

impl Instance {
    /// Anything but a clean "gone" may be running.
    pub fn may_run(&self) -> bool {
        *self != Self::Gone
    }
}

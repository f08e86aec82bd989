//! The process around [`interruption_watcher`].

runtime::process!(InterruptionWatcher, interruption_watcher::start);

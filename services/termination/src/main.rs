//! The process around [`termination`].

runtime::process!(Termination, termination::start);

//! The process around [`disruption`].

runtime::process!(Disruption, disruption::start);

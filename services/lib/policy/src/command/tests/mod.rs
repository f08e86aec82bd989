//! Single steps, and every interleaving of a small world.

mod budgets;
mod explore;
mod process;
mod steps;
mod validation;
mod world;

use super::*;
use crate::candidate::PdbBlock;
use crate::method::Reason;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn timing() -> Timing {
    Timing::standard(1)
}

/// As proposed.
fn member(name: &str) -> Member {
    Member {
        node: Arc::from(format!("node-{name}")),
        claim: Arc::from(name),
        leaving: false,
        noted: false,
        tainted: false,
        marked: false,
        lost: false,
        refused: None,
        stuck: false,
        looked: None,
        obstacle: None,
        newcomers: Vec::new(),
    }
}

fn taken(name: &str) -> Member {
    Member { noted: true, tainted: true, marked: true, ..member(name) }
}

fn replacement(initialized: Option<i64>) -> Replacement {
    Replacement {
        claim: Arc::from("new"),
        leaving: false,
        initialized: initialized.map(at),
        used: false,
        stuck: false,
    }
}

fn view(method: Method, needs: usize, members: Vec<Member>) -> View {
    View {
        method,
        removes: members.len(),
        needs,
        proposed: at(0),
        members,
        replacements: Vec::new(),
        memory: Memory { plan: true, ..Memory::default() },
    }
}

fn claims(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

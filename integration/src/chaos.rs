//! Which misfortunes happen in a chaos run, in which order: drawn from a seed alone, so that a run can be played again. Whom a
//! step hits is a number that the runner takes modulo what is there.

use std::time::Duration;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A Deployment, by number, gets so many replicas.
    Scale { deployment: usize, replicas: u32 },
    /// kill -9 of a service, by number, and another process in its place after the pause.
    KillService { service: usize, pause: Duration },
    /// SIGTERM of a service, and a process of this build or of the previous one in its place, as a rolling upgrade does.
    Replace { service: usize, by_previous: bool },
    /// For so long no packet passes between a service and those on this side of it, and no connection is closed.
    Partition { service: usize, side: Side, lasts: Duration },
    /// kill -9 of the API server.
    KillApiServer,
    /// kill -9 of etcd.
    KillEtcd,
    /// EC2 answers this share of these calls with an error.
    FailCalls { action: &'static str, code: &'static str, percent: u32 },
    /// These calls take longer.
    SlowCalls { action: &'static str, millis: u64 },
    /// EC2 has no capacity for these types.
    Shortage { types: &'static str, capacity_type: &'static str },
    /// EC2 warns that it takes a spot instance back.
    Interrupt { instance: usize },
    /// An instance ends without a warning.
    EndInstance { instance: usize },
    /// A person deletes a NodeClaim.
    DeleteClaim { claim: usize },
    /// The pool's template changes: all nodes drift.
    Drift { label: u32 },
    /// All faults of AWS end.
    Heal,
}

/// Whom a service no longer reaches, or who no longer reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    ApiServer,
    /// The services that call it.
    Callers,
}

impl Step {
    pub fn is_kill(&self) -> bool {
        matches!(self, Self::KillService { .. } | Self::KillApiServer | Self::KillEtcd)
    }

    pub fn is_fault(&self) -> bool {
        use Step::{EndInstance, FailCalls, Interrupt, Partition, Shortage, SlowCalls};
        matches!(
            self,
            FailCalls { .. }
                | SlowCalls { .. }
                | Shortage { .. }
                | Interrupt { .. }
                | EndInstance { .. }
                | Partition { .. }
        )
    }
}

const CALLS: [&str; 6] = [
    "CreateFleet",
    "DescribeInstances",
    "TerminateInstances",
    "CreateLaunchTemplate",
    "ReceiveMessage",
    "Describe*",
];
const CODES: [&str; 3] = ["InternalError", "RequestLimitExceeded", "Unavailable"];
const TYPES: [&str; 4] = ["c*", "m*", "r*", "*.large"];

/// The steps of a seed, without end, each with the pause before it.
pub struct Steps {
    state: u64,
    drifts: u32,
}

impl Steps {
    pub fn new(seed: u64) -> Self {
        Self { state: seed, drifts: 0 }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        let index = self.below(all.len() as u64);
        all[usize::try_from(index).unwrap_or_default()]
    }

    fn number(&mut self) -> usize {
        usize::try_from(self.below(1 << 16)).unwrap_or_default()
    }

    fn step(&mut self) -> Step {
        match self.below(100) {
            0..20 => Step::Scale {
                deployment: self.number(),
                replicas: u32::try_from(self.below(9)).unwrap_or_default(),
            },
            20..50 => {
                Step::KillService { service: self.number(), pause: Duration::from_millis(self.below(3000)) }
            }
            50..52 => Step::KillApiServer,
            52..53 => Step::KillEtcd,
            53..66 => Step::FailCalls {
                action: self.one_of(&CALLS),
                code: self.one_of(&CODES),
                percent: 10 + u32::try_from(self.below(60)).unwrap_or_default(),
            },
            66..72 => Step::SlowCalls { action: self.one_of(&CALLS), millis: 200 + self.below(2000) },
            72..78 => Step::Shortage {
                types: self.one_of(&TYPES),
                capacity_type: self.one_of(&["spot", "on-demand"]),
            },
            78..83 => Step::Interrupt { instance: self.number() },
            83..86 => Step::EndInstance { instance: self.number() },
            86..90 => Step::DeleteClaim { claim: self.number() },
            90..92 => {
                self.drifts += 1;
                Step::Drift { label: self.drifts }
            }
            92..94 => Step::Replace { service: self.number(), by_previous: self.below(2) == 0 },
            94..97 => Step::Partition {
                service: self.number(),
                side: if self.below(2) == 0 { Side::ApiServer } else { Side::Callers },
                lasts: Duration::from_secs(1 + self.below(30)),
            },
            _ => Step::Heal,
        }
    }
}

impl Iterator for Steps {
    type Item = (Duration, Step);

    fn next(&mut self) -> Option<Self::Item> {
        let pause = Duration::from_millis(100 + self.below(1900));
        Some((pause, self.step()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_steps_again_and_another_gives_others() {
        let steps = |seed: u64| Steps::new(seed).take(200).collect::<Vec<_>>();
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn every_kind_of_step_comes() {
        let steps: Vec<Step> = Steps::new(1).take(2000).map(|(_, step)| step).collect();
        let comes = |is: fn(&Step) -> bool| steps.iter().any(is);
        assert!(comes(|step| matches!(step, Step::KillEtcd)));
        assert!(comes(|step| matches!(step, Step::KillApiServer)));
        assert!(comes(|step| matches!(step, Step::Drift { .. })));
        assert!(comes(|step| matches!(step, Step::Heal)));
        assert!(comes(|step| matches!(step, Step::Replace { by_previous: true, .. })));
        for side in [Side::ApiServer, Side::Callers] {
            let is_on = |step: &Step| matches!(step, Step::Partition { side: of, .. } if *of == side);
            assert!(steps.iter().any(is_on), "{side:?}");
        }
        let (kills, faults) = (
            steps.iter().filter(|step| step.is_kill()).count(),
            steps.iter().filter(|step| step.is_fault()).count(),
        );
        assert!(kills > 500 && faults > 500, "{kills} kills, {faults} faults");
    }
}

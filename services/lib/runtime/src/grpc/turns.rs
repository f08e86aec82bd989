//! Who may run at once: services among themselves, people among themselves, so that no number of people's calls delays what
//! services do for a cluster. A turn lasts until the last byte of the answer, for streams too.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Code, Status};

use super::{auth::Identity, errors};

pub(crate) struct Turns {
    services: Arc<Semaphore>,
    people: Arc<Semaphore>,
    of_one: usize,
    /// By user, or by the address of a caller without a name.
    present: Arc<Mutex<HashMap<String, usize>>>,
    costly: Vec<Costly>,
}

/// Methods that compute for long, with the turns of all their calls together.
struct Costly {
    methods: Vec<&'static str>,
    turns: Arc<Semaphore>,
}

/// Given back when it is dropped.
pub(crate) struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
    _person: Option<Person>,
}

struct Person {
    user: String,
    present: Arc<Mutex<HashMap<String, usize>>>,
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore).acquire_owned().await.expect("the semaphore is never closed")
}

fn lock(present: &Mutex<HashMap<String, usize>>) -> MutexGuard<'_, HashMap<String, usize>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Person {
    fn drop(&mut self) {
        let mut present = lock(&self.present);
        if let Some(count) = present.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                present.remove(&self.user);
            }
        }
    }
}

impl Turns {
    pub(crate) fn new(
        services: usize,
        people: usize,
        of_one: usize,
        costly: Vec<(Vec<&'static str>, usize)>,
    ) -> Self {
        let costly = costly.into_iter();
        let costly =
            costly.map(|(methods, at_once)| Costly { methods, turns: Arc::new(Semaphore::new(at_once)) });
        Self {
            services: Arc::new(Semaphore::new(services)),
            people: Arc::new(Semaphore::new(people)),
            of_one,
            present: Arc::default(),
            costly: costly.collect(),
        }
    }

    /// Waits for a turn; refuses a person who has as many calls under way as one may have.
    pub(crate) async fn take(&self, caller: &Identity, method: &str) -> Result<Turn, Status> {
        let Identity::Human(human) = caller else {
            return Ok(Turn { _permits: vec![acquire(&self.services).await], _person: None });
        };
        let person = self.enter(&human.name)?;
        let mut permits = Vec::new();
        // First: a call that waits for its costly turn must not hold one that other people's reads need meanwhile.
        if let Some(costly) = self.costly.iter().find(|costly| costly.methods.contains(&method)) {
            permits.push(acquire(&costly.turns).await);
        }
        permits.push(acquire(&self.people).await);
        Ok(Turn { _permits: permits, _person: Some(person) })
    }

    /// For what needs no token. Waits for nobody; refuses an address that has as many calls under way as one person may have.
    pub(crate) fn take_open(&self, from: IpAddr) -> Result<Turn, Status> {
        Ok(Turn { _permits: Vec::new(), _person: Some(self.enter(&from.to_string())?) })
    }

    fn enter(&self, user: &str) -> Result<Person, Status> {
        let mut present = lock(&self.present);
        let count = present.entry(user.to_owned()).or_default();
        if *count >= self.of_one {
            let message = format!("{user} has {count} calls under way already");
            return Err(errors::status(Code::ResourceExhausted, "TOO_MANY_CALLS", message, []));
        }
        *count += 1;
        Ok(Person { user: user.to_owned(), present: Arc::clone(&self.present) })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::{Service, grpc::auth::User};

    fn person(user: &str) -> Identity {
        Identity::Human(User { name: user.to_owned(), ..User::default() })
    }

    #[tokio::test]
    async fn plans_that_wait_leave_every_other_turn_free() {
        let turns = Turns::new(1, 3, 16, vec![(vec!["Plan"], 1)]);
        let running = turns.take(&person("anna"), "Plan").await.unwrap();
        let mut waiting: Vec<_> = (0..64)
            .map(|number| {
                let planner = person(&format!("planner-{}", number % 4));
                let turns = &turns;
                Box::pin(async move { turns.take(&planner, "Plan").await })
            })
            .collect();
        assert!(waiting.iter_mut().all(|plan| plan.now_or_never().is_none()), "one plan at once");
        let reads = ["bert", "carl"].map(person);
        let reads = reads.each_ref().map(|user| turns.take(user, "ListDrains").now_or_never());
        assert!(reads.iter().all(Option::is_some), "two of three turns are free");
        drop(running);
        assert!(waiting[0].as_mut().now_or_never().is_some(), "the next plan follows");
    }

    #[tokio::test]
    async fn people_never_take_a_turn_of_services_and_wait_for_costly_ones() {
        let turns = Turns::new(1, 3, 2, vec![(vec!["Plan"], 1)]);
        let first = turns.take(&person("anna"), "Plan").await.unwrap();
        let second = turns.take(&person("bert"), "Plan").now_or_never();
        assert!(second.is_none(), "one plan at once");
        let third = turns.take(&person("bert"), "ListDrains").await.unwrap();
        let service = turns.take(&Identity::Service(Service::Disruption), "Plan").now_or_never();
        assert!(service.unwrap().is_ok(), "services have turns of their own");
        drop((first, third));
        assert!(turns.take(&person("bert"), "Plan").now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn calls_of_one_person_are_limited() {
        let turns = Turns::new(1, 10, 2, Vec::new());
        let held = [turns.take(&person("anna"), "a").await, turns.take(&person("anna"), "a").await];
        let refused = turns.take(&person("anna"), "a").await.err().unwrap();
        assert_eq!(
            (refused.code(), errors::reason(&refused).as_deref()),
            (Code::ResourceExhausted, Some("TOO_MANY_CALLS"))
        );
        assert!(turns.take(&person("bert"), "a").await.is_ok());
        drop(held);
        assert!(turns.take(&person("anna"), "a").await.is_ok());
    }
}

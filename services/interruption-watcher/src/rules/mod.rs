//! The EventBridge rules that feed the queue: every replica looks whether they are there and says which is missing; the leader
//! also makes and repairs them with `--manage-rules`. Rules that it did not make are never changed.

mod required;

use std::sync::Arc;
use std::time::Duration;

use cloud::queue::{Rule, RuleTarget};
use cloud::{CloudError, ErrorKind, Rules};
use runtime::Leadership;
use runtime::readiness::Note;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Metrics, RuleName};
use crate::queue::State as QueueState;
use required::{REQUIRED, RequiredRule};

/// The target's id in rules of ours, as in the reference's template.
const TARGET_ID: &str = "KarpenterInterruptionQueueTarget";
const EVERY: Duration = Duration::from_secs(300);
/// While something is missing, or rules are ours to repair.
const SOON: Duration = Duration::from_secs(30);

/// One rule that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: &'static str,
    /// Empty when it does its work.
    pub(crate) problem: String,
}

pub(crate) struct Keeper {
    pub(crate) rules: Arc<dyn Rules>,
    pub(crate) cluster: String,
    pub(crate) manage: bool,
    pub(crate) leadership: Leadership,
    pub(crate) queue: watch::Receiver<QueueState>,
    pub(crate) state: watch::Sender<Vec<Found>>,
    pub(crate) note: Note,
    pub(crate) metrics: Metrics,
}

impl Keeper {
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let arn = self.queue.borrow_and_update().arn.clone();
            let url_known = !self.queue.borrow().url.is_empty();
            let next = match (arn.is_empty(), url_known) {
                (false, _) => self.look(&arn).await,
                (true, true) => {
                    let why = "the queue's ARN is not known: allow sqs:GetQueueAttributes";
                    self.publish(REQUIRED.iter().map(|required| unknown(required, why)).collect());
                    EVERY
                }
                // Nothing to look for before the queue is found.
                (true, false) => EVERY,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                changed = self.queue.changed() => if changed.is_err() {
                    stop.cancelled().await;
                    return Ok(());
                },
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Returns when to look again.
    async fn look(&self, arn: &str) -> Duration {
        let rules = match self.rules.rules_of_target(arn).await {
            Ok(rules) => rules,
            Err(error) => {
                let why = refusal(&error);
                self.publish(REQUIRED.iter().map(|required| unknown(required, &why)).collect());
                return if error.kind == ErrorKind::Unauthorized { EVERY } else { SOON };
            }
        };
        let mut found = Vec::new();
        for required in &REQUIRED {
            let mut problem = required.problem(&rules);
            if let Some(why) = &problem
                && self.manage
                && let Some(term) = self.leadership.held()
            {
                tracing::info!(rule = required.name, why, "creating or repairing the rule");
                let made = tokio::select! {
                    biased;
                    () = term.lost().cancelled_owned() => None,
                    made = self.make(required, arn) => Some(made),
                };
                // The next leader looks at it anew.
                if let Some(made) = made {
                    problem = made.err().map(|error| format!("{why}; {}", refusal(&error)));
                }
            }
            found.push(Found { name: required.name, problem: problem.unwrap_or_default() });
        }
        let complete = found.iter().all(|one| one.problem.is_empty());
        self.publish(found);
        if complete && !self.manage { EVERY } else { SOON }
    }

    async fn make(&self, required: &RequiredRule, arn: &str) -> Result<(), CloudError> {
        let name = required.name_for(&self.cluster);
        let pattern = required.pattern();
        if let Some(Rule { targets, .. }) = self.rules.rule(&name).await?
            && targets.iter().any(|target| target.id != TARGET_ID || target.arn != arn)
        {
            tracing::warn!(rule = name, "the rule has other targets too; they are kept");
        }
        self.rules.put_rule(&name, &pattern).await?;
        let target = RuleTarget { id: TARGET_ID.to_owned(), arn: arn.to_owned() };
        self.rules.put_target(&name, target).await
    }

    fn publish(&self, found: Vec<Found>) {
        for one in &found {
            let labels = RuleName { rule: one.name };
            self.metrics.rule_missing.get_or_create(&labels).set(i64::from(!one.problem.is_empty()));
        }
        let missing: Vec<String> = found
            .iter()
            .filter(|one| !one.problem.is_empty())
            .map(|one| format!("{}: {}", one.name, one.problem))
            .collect();
        if missing.is_empty() {
            self.note.clear();
        } else {
            self.note.set(&missing.join("; "));
        }
        let news = self.state.send_if_modified(|state| {
            let changed = *state != found;
            *state = found;
            changed
        });
        if news && !missing.is_empty() {
            tracing::warn!(
                missing = missing.join("; "),
                "some interruption notices will not reach the queue"
            );
        }
    }
}

fn unknown(required: &RequiredRule, why: &str) -> Found {
    Found { name: required.name, problem: why.to_owned() }
}

fn refusal(error: &CloudError) -> String {
    match error.kind {
        ErrorKind::Unauthorized => {
            format!(
                "not permitted to manage the rules (events:ListRuleNamesByTarget, DescribeRule, ListTargetsByRule, PutRule, PutTargets): {error}"
            )
        }
        _ => format!("EventBridge does not answer as it should: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use cloud::memory::MemoryCloud;
    use cloud::{Answer, Queue as _};
    use runtime::Readiness;

    use super::*;

    struct Bench {
        cloud: Arc<MemoryCloud>,
        arn: String,
        readiness: Readiness,
        keeper: Keeper,
    }

    async fn bench(manage: bool) -> Bench {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        cloud.create_queue("demo");
        let found = cloud.find("demo").await.unwrap();
        let queue =
            watch::Sender::new(QueueState { url: found.url, arn: found.arn.clone(), problem: String::new() });
        let readiness = Readiness::default();
        let keeper = Keeper {
            rules: Arc::clone(&cloud) as Arc<dyn Rules>,
            cluster: "demo".into(),
            manage,
            leadership: Leadership::always(&CancellationToken::new()),
            queue: queue.subscribe(),
            state: watch::Sender::new(Vec::new()),
            note: readiness.note("rules"),
            metrics: Metrics::register(&runtime::Metrics::new(runtime::Service::InterruptionWatcher)),
        };
        Bench { cloud, arn: found.arn, readiness, keeper }
    }

    fn missing(bench: &Bench) -> Vec<&'static str> {
        let state = bench.keeper.state.borrow();
        state.iter().filter(|one| !one.problem.is_empty()).map(|one| one.name).collect()
    }

    #[tokio::test]
    async fn missing_rules_are_named_and_nothing_is_made_without_manage_rules() {
        let bench = bench(false).await;
        let required = REQUIRED[1];
        bench.keeper.make(&required, &bench.arn).await.unwrap();
        bench.keeper.look(&bench.arn).await;
        assert_eq!(missing(&bench).len(), 4);
        assert!(!missing(&bench).contains(&"SpotInterruptionRule"));
        let notes = bench.readiness.notes().join("\n");
        assert!(notes.contains("RebalanceRule: no rule sends") && bench.readiness.is_ready(), "{notes}");
        assert_eq!(bench.cloud.state().rules.len(), 1);
    }

    #[tokio::test]
    async fn with_manage_rules_it_makes_them_and_repairs_its_own() {
        let bench = bench(true).await;
        bench.keeper.look(&bench.arn).await;
        bench.keeper.look(&bench.arn).await;
        assert!(missing(&bench).is_empty(), "{:?}", missing(&bench));
        assert!(bench.readiness.notes().is_empty());
        assert_eq!(bench.cloud.state().rules.len(), 5);
        bench.cloud.state().rules.get_mut("demo-RebalanceRule").unwrap().enabled = false;
        bench.keeper.look(&bench.arn).await;
        assert!(bench.cloud.state().rules["demo-RebalanceRule"].enabled);
    }

    #[tokio::test]
    async fn rules_of_others_stay_as_they_are() {
        let bench = bench(true).await;
        let target = RuleTarget { id: "1".into(), arn: bench.arn.clone() };
        let theirs = Rule {
            name: "stack-SpotInterruptionRule-ABC".into(),
            pattern: REQUIRED[1].pattern(),
            enabled: false,
            targets: vec![target],
        };
        bench.cloud.state().rules.insert(theirs.name.clone(), theirs.clone());
        bench.keeper.look(&bench.arn).await;
        assert_eq!(bench.cloud.state().rules[&theirs.name], theirs);
        assert!(bench.cloud.state().rules["demo-SpotInterruptionRule"].enabled);
    }

    #[tokio::test]
    async fn a_missing_permission_is_named() {
        let bench = bench(true).await;
        bench.cloud.fail("ListRuleNamesByTarget", "AccessDeniedException", "no");
        bench.keeper.look(&bench.arn).await;
        assert_eq!(missing(&bench).len(), 5);
        assert!(bench.readiness.notes()[0].contains("not permitted"), "{:?}", bench.readiness.notes());
    }

    /// EventBridge that does not answer to what makes a rule.
    struct Silent {
        cloud: Arc<MemoryCloud>,
        asked: tokio::sync::Notify,
    }

    impl Rules for Silent {
        fn rule<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Rule>> {
            self.cloud.rule(name)
        }

        fn rules<'a>(&'a self, name_prefix: &'a str) -> Answer<'a, Vec<Rule>> {
            self.cloud.rules(name_prefix)
        }

        fn rules_of_target<'a>(&'a self, arn: &'a str) -> Answer<'a, Vec<Rule>> {
            self.cloud.rules_of_target(arn)
        }

        fn put_rule<'a>(&'a self, _name: &'a str, _pattern: &'a str) -> Answer<'a, ()> {
            self.asked.notify_one();
            Box::pin(std::future::pending())
        }

        fn put_target<'a>(&'a self, rule: &'a str, target: RuleTarget) -> Answer<'a, ()> {
            self.cloud.put_target(rule, target)
        }

        fn delete_rule<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
            self.cloud.delete_rule(name)
        }
    }

    #[tokio::test]
    async fn the_making_of_rules_ends_with_the_lease() {
        let mut bench = bench(true).await;
        let silent = Arc::new(Silent { cloud: Arc::clone(&bench.cloud), asked: tokio::sync::Notify::new() });
        bench.keeper.rules = Arc::clone(&silent) as Arc<dyn Rules>;
        let lease = CancellationToken::new();
        bench.keeper.leadership = Leadership::always(&lease);
        let lose = async {
            silent.asked.notified().await;
            lease.cancel();
        };
        tokio::join!(bench.keeper.look(&bench.arn), lose);
        assert_eq!(missing(&bench).len(), 5, "what was not made is still missing");
        assert!(bench.cloud.state().rules.is_empty());
    }
}

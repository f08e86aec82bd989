//! EventBridge rules that feed the queue.

use aws_sdk_eventbridge::types::{RuleState, Target};
use cloud::error::CloudError;
use cloud::queue::{Rule, RuleTarget};

use crate::connect::Aws;
use crate::convert::owned;
use crate::ec2::paced;

impl Aws {
    pub(crate) async fn find_rule(&self, name: &str) -> Result<Option<Rule>, CloudError> {
        let call = self.events().describe_rule().name(name);
        let found = match paced(&self.paces().other, "DescribeRule", call.send()).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Rule {
            name: name.to_owned(),
            pattern: owned(found.event_pattern()),
            enabled: found.state() == Some(&RuleState::Enabled),
            targets: self.rule_targets(name).await?,
        }))
    }

    pub(crate) async fn find_rules(&self, prefix: &str) -> Result<Vec<Rule>, CloudError> {
        let mut rules = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let named = (!prefix.is_empty()).then(|| prefix.to_owned());
            let call = self.events().list_rules().set_name_prefix(named).set_next_token(token.take());
            let page = paced(&self.paces().other, "ListRules", call.send()).await?;
            for rule in page.rules() {
                let name = owned(rule.name());
                rules.push(Rule {
                    pattern: owned(rule.event_pattern()),
                    enabled: rule.state() == Some(&RuleState::Enabled),
                    targets: self.rule_targets(&name).await?,
                    name,
                });
            }
            match page.next_token() {
                Some(next) => token = Some(next.to_owned()),
                None => return Ok(rules),
            }
        }
    }

    /// Two calls a rule of ours, however many rules the account has.
    pub(crate) async fn find_rules_of_target(&self, arn: &str) -> Result<Vec<Rule>, CloudError> {
        let mut rules = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let call = self.events().list_rule_names_by_target().target_arn(arn).set_next_token(token.take());
            let page = paced(&self.paces().other, "ListRuleNamesByTarget", call.send()).await?;
            for name in page.rule_names() {
                // One that is gone by now is simply not there.
                rules.extend(self.find_rule(name).await?);
            }
            match page.next_token() {
                Some(next) => token = Some(next.to_owned()),
                None => return Ok(rules),
            }
        }
    }

    async fn rule_targets(&self, rule: &str) -> Result<Vec<RuleTarget>, CloudError> {
        let mut targets = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let call = self.events().list_targets_by_rule().rule(rule).set_next_token(token.take());
            let page = paced(&self.paces().other, "ListTargetsByRule", call.send()).await?;
            let target = |t: &Target| RuleTarget { id: t.id().to_owned(), arn: t.arn().to_owned() };
            targets.extend(page.targets().iter().map(target));
            match page.next_token() {
                Some(next) => token = Some(next.to_owned()),
                None => break,
            }
        }
        targets.sort();
        Ok(targets)
    }

    pub(crate) async fn save_rule(&self, name: &str, pattern: &str) -> Result<(), CloudError> {
        let call = self.events().put_rule().name(name).event_pattern(pattern).state(RuleState::Enabled);
        paced(&self.paces().other, "PutRule", call.send()).await.map(drop)
    }

    pub(crate) async fn save_target(&self, rule: &str, target: RuleTarget) -> Result<(), CloudError> {
        const OPERATION: &str = "PutTargets";
        let target = Target::builder().id(target.id).arn(target.arn).build();
        let target = target.map_err(|e| CloudError::invalid(OPERATION, e.to_string()))?;
        let call = self.events().put_targets().rule(rule).targets(target);
        let answer = paced(&self.paces().other, OPERATION, call.send()).await?;
        match answer.failed_entries().first() {
            Some(failed) => Err(CloudError::new(
                OPERATION,
                failed.error_code().unwrap_or_default(),
                failed.error_message().unwrap_or_default(),
                cloud::error::Fault::Client,
            )),
            None => Ok(()),
        }
    }

    pub(crate) async fn drop_rule(&self, name: &str) -> Result<(), CloudError> {
        const OPERATION: &str = "RemoveTargets";
        let Some(rule) = self.find_rule(name).await? else { return Ok(()) };
        if !rule.targets.is_empty() {
            let ids = rule.targets.into_iter().map(|t| t.id).collect();
            let call = self.events().remove_targets().rule(name).set_ids(Some(ids));
            paced(&self.paces().other, OPERATION, call.send()).await?;
        }
        let call = self.events().delete_rule().name(name);
        paced(&self.paces().other, "DeleteRule", call.send()).await.map(drop)
    }
}

//! Label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use model::pod::{LabelSelector, SelectorOperator, SelectorRequirement};

use super::error::{At, Invalid};

/// `None` stays `None`, which selects nothing.
pub fn label_selector(
    selector: Option<&meta::LabelSelector>,
    at: &At<'_>,
) -> Result<Option<LabelSelector>, Invalid> {
    let Some(selector) = selector else { return Ok(None) };
    let mut requirements: Vec<SelectorRequirement> = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| SelectorRequirement::is(key, value))
        .collect();
    let expressions_at = at.key("matchExpressions");
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let here = expressions_at.index(index);
        let operator = match expression.operator.as_str() {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            other => {
                let problem =
                    format!("{other:?} is no selector operator: use In, NotIn, Exists or DoesNotExist");
                return Err(here.key("operator").invalid(problem));
            }
        };
        let values = expression.values.clone().unwrap_or_default();
        requirements.push(SelectorRequirement { key: expression.key.clone(), operator, values });
    }
    Ok(Some(LabelSelector { requirements }))
}

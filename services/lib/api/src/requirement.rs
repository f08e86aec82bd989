//! Node selector requirements of NodePools, NodeClaims and NodeOverlays, and the schema of each list of them. The algebra on
//! requirements is `model`'s; checks that the API server cannot make are in `validate`.

use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use model::labels;
use model::requirement::Entry;
use model::taint::UnknownName;

use crate::Extra;
use crate::patterns;
use crate::restricted;
use crate::schema::{Cel, cel};
use crate::text_enum::text_enum;

text_enum! {
    /// How a requirement relates a label to its values.
    pub enum Operator {
        /// The label has one of the values.
        In = "In",
        /// The label has none of the values, or is absent.
        NotIn = "NotIn",
        /// The label is there, with any value.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
        /// The label is an integer above the value.
        Gt = "Gt",
        /// The label is an integer below the value.
        Lt = "Lt",
        /// The label is an integer not below the value.
        Gte = "Gte",
        /// The label is an integer not above the value.
        Lte = "Lte",
    }
}

impl Operator {
    /// Whether the operator compares with one integer.
    pub fn is_bound(&self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl Default for Operator {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// A condition on one label that nodes must meet, with an optional demand for flexibility.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label the requirement is about. Labels that the autoscaler itself sets are not allowed, well-known ones such as
    /// karpenter.sh/capacity-type or karpenter.k8s.aws/instance-category are.
    #[schemars(length(max = 316), regex(pattern = patterns::QUALIFIED_NAME))]
    pub key: String,
    /// Relation between the label and the values: In, NotIn, Exists, DoesNotExist, or one of the integer comparisons Gt, Lt,
    /// Gte, Lte.
    pub operator: Operator,
    /// Values to compare with. In needs at least one, the integer comparisons exactly one; Exists and DoesNotExist ignore
    /// them.
    // Length and pattern stand on the list itself, where they have no effect: so does the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 63, "pattern" = patterns::LABEL_VALUE, "x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
    /// Number of different values of this label that must remain possible when a node is launched, to keep the choice of
    /// instance types wide. Alpha.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub min_values: Option<i32>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Requirement {
    /// A requirement without `minValues`.
    pub fn new(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            key: key.into(),
            operator,
            values: Some(values.into_iter().map(Into::into).collect::<Vec<_>>()).filter(|v| !v.is_empty()),
            ..Self::default()
        }
    }

    /// As `model` takes it. Fails on an operator of a newer release.
    pub fn to_entry(&self) -> Result<Entry, UnknownName> {
        Ok(Entry {
            key: self.key.clone(),
            operator: self.operator.as_str().parse()?,
            values: self.values().to_vec(),
            min_values: self.min_values.and_then(|least| u32::try_from(least).ok()),
        })
    }

    /// The values, none when the field is absent.
    pub fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }
}

fn bound_needs_one_integer() -> Cel {
    cel(
        "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (x.values.size() == 1 && int(x.values[0]) >= 0))",
        "operators Gt, Lt, Gte and Lte need a single integer value that is zero or more",
    )
}

fn in_needs_a_value() -> Cel {
    cel("self.all(x, x.operator != 'In' || x.values.size() != 0)", "operator In needs at least one value")
}

fn list(generator: &mut SchemaGenerator, kind: labels::Schema, mut rules: Cel) -> Schema {
    let mut item = Requirement::json_schema(generator);
    if kind == labels::Schema::NodeOverlay
        && let Some(properties) = item.get_mut("properties").and_then(|p| p.as_object_mut())
    {
        properties.remove("minValues");
    }
    if let Some(key) = item.get_mut("properties").and_then(|p| p.get_mut("key"))
        && let Ok(key_schema) = <&mut Schema>::try_from(key)
    {
        restricted::key_rules(kind).transform(key_schema);
    }
    let mut schema =
        json_schema!({"type": "array", "maxItems": 100, "x-kubernetes-list-type": "atomic", "items": item});
    rules.transform(&mut schema);
    schema
}

fn claim_rules() -> Cel {
    in_needs_a_value().with(bound_needs_one_integer()).and(
        "self.all(x, x.operator != 'In' || !has(x.minValues) || x.values.size() >= x.minValues)",
        "operator In with minValues needs at least that many values",
    )
}

pub(crate) fn of_nodepool(generator: &mut SchemaGenerator) -> Schema {
    list(generator, labels::Schema::NodePool, claim_rules())
}

pub(crate) fn of_nodeclaim(generator: &mut SchemaGenerator) -> Schema {
    list(generator, labels::Schema::NodeClaim, claim_rules())
}

pub(crate) fn of_nodeoverlay(generator: &mut SchemaGenerator) -> Schema {
    let rules = in_needs_a_value()
        .and(
            "self.all(x, x.operator != 'NotIn' || x.values.size() != 0)",
            "operator NotIn needs at least one value",
        )
        .with(bound_needs_one_integer());
    list(generator, labels::Schema::NodeOverlay, rules)
}

/// The requirements list of a resolved image: plain Kubernetes node selector requirements.
pub(crate) fn of_image(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "operator"],
            "properties": {
                "key": {"type": "string", "description": "Label the requirement is about."},
                "operator": {"type": "string", "description": "Relation between the label and the values."},
                "values": {
                    "type": "array",
                    "items": {"type": "string"},
                    "x-kubernetes-list-type": "atomic",
                    "description": "Values to compare with.",
                },
            },
        },
    })
}

//! From the outcome of a simulated removal to a decision.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use model::price::MicroDollars;

use super::Candidate;

/// Cheaper spot types that must exist before one spot node is replaced by another: enough that the new one will not soon be
/// replaced in turn.
pub const SPOT_TO_SPOT_TYPES: usize = 15;

#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// Any number of nodes may be replaced by any number that costs less together. The reference replaces by one only.
    pub many_for_many: bool,
}

/// What a simulation of removing some candidates came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Pods that had a place before and would have none, as `namespace/name`. Pods that were pending anyway do not count.
    pub left_over: Vec<String>,
    /// Pods that have a place in the plan, but that kube-scheduler would leave pending in some order of their arrival.
    pub displaced: Vec<String>,
    pub new_nodes: Vec<Replacement>,
}

/// A node that the simulation would make.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    /// What it may become, cheapest first.
    pub types: Vec<TypeOption>,
    pub allows_spot: bool,
    pub allows_on_demand: bool,
    pub min_values: Vec<MinValues>,
}

/// One type of a replacement.
#[derive(Clone, Debug)]
pub struct TypeOption {
    pub name: Arc<str>,
    /// The dearest offering that a launch might get, of the capacity type that would be preferred.
    pub worst_price: MicroDollars,
    /// The same if only spot were allowed; `None` without a spot offering.
    pub worst_spot_price: Option<MicroDollars>,
}

/// A demand for flexibility: so many values of a label must remain among the types.
#[derive(Clone, Debug)]
pub struct MinValues {
    pub key: String,
    pub wanted: usize,
    /// Values of the label by type, in the order of the types.
    pub values: Vec<BTreeSet<String>>,
}

/// What to do with the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Everything fits elsewhere.
    Delete,
    /// New nodes take over, one entry for each of the outcome's.
    Replace(Vec<Kept>),
    Leave(Refusal),
}

/// What a new node may still become: at their worst, all new nodes together cost less than what they replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Types, by index.
    pub types: Vec<usize>,
    /// It must be launched as spot, since an on-demand launch might be dearer than what it replaces.
    pub pin_spot: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    LeftOver(Vec<String>),
    /// There is a place for all, but kube-scheduler would fill it otherwise and leave these pending.
    Displaced(Vec<String>),
    TooManyNew(usize),
    NotCheaper,
    SpotToSpotDisabled,
    TooFewSpotTypes {
        found: usize,
    },
    MinValues {
        key: String,
    },
    /// The pool's `Balanced` policy: too much disturbance for the savings.
    NotWorthIt,
    /// Less than the pool asks for, in micro-dollars per hour.
    TooLittleSaved {
        saving: MicroDollars,
        wanted: MicroDollars,
    },
    /// What the move costs comes back too late.
    PaysBackLate {
        minutes: i64,
        longest: i64,
    },
    /// Less than moving its pods costs.
    CostsMore {
        saving: MicroDollars,
        pods: u32,
        per_pod: MicroDollars,
    },
    /// A setting of the pool against churn that cannot be read.
    Setting(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOver(pods) => {
                write!(f, "its pods would not all find a place: {}", Shown(pods))
            }
            Self::Displaced(pods) => write!(
                f,
                "there is room for its pods, but kube-scheduler would place others there first and leave pending: {}",
                Shown(pods)
            ),
            Self::TooManyNew(count) => write!(f, "taking it away would need {count} new nodes"),
            Self::NotCheaper => f.write_str("no cheaper node can replace it"),
            Self::SpotToSpotDisabled => {
                f.write_str("a spot node is not replaced by another: gate SpotToSpotConsolidation is off")
            }
            Self::TooFewSpotTypes { found } => write!(
                f,
                "only {found} cheaper spot types could replace it, and {SPOT_TO_SPOT_TYPES} are needed to not replace it soon again"
            ),
            Self::TooLittleSaved { saving, wanted } => {
                write!(f, "it would save ${saving} an hour, and its NodePool asks for at least ${wanted}")
            }
            Self::PaysBackLate { minutes, longest } => write!(
                f,
                "the move would pay for itself after {minutes} minutes, and its NodePool allows {longest}"
            ),
            Self::CostsMore { saving, pods, per_pod } => write!(
                f,
                "a replacement would save ${saving} an hour for moving {pods} pods, and its NodePool asks for ${per_pod} an hour per pod (annotation {})",
                model::labels::COST_PER_POD
            ),
            Self::Setting(problem) => f.write_str(problem),
            Self::NotWorthIt => f.write_str("the savings are not worth the disturbance (policy Balanced)"),
            Self::MinValues { key } => write!(f, "too few values of {key} would remain among cheaper types"),
        }
    }
}

/// The first few names.
struct Shown<'a>(&'a [String]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<&str> = self.0.iter().take(5).map(String::as_str).collect();
        let more = if self.0.len() > shown.len() { ", …" } else { "" };
        write!(f, "{}{more}", shown.join(", "))
    }
}

/// The decision for removing exactly these candidates, whose pods `outcome` has placed.
pub fn judge(candidates: &[&Candidate], outcome: &Outcome, settings: Settings) -> Decision {
    if !outcome.left_over.is_empty() {
        return Decision::Leave(Refusal::LeftOver(outcome.left_over.clone()));
    }
    if !outcome.displaced.is_empty() {
        return Decision::Leave(Refusal::Displaced(outcome.displaced.clone()));
    }
    let price: MicroDollars = candidates.iter().map(|c| c.price).sum();
    let most = if settings.many_for_many { usize::MAX } else { 1 };
    match outcome.new_nodes.as_slice() {
        [] => Decision::Delete,
        several if several.len() > most => Decision::Leave(Refusal::TooManyNew(several.len())),
        [one] if one.allows_spot && candidates.iter().all(|c| c.spot) => {
            spot_to_spot(candidates, price, one, settings)
        }
        several => replace(candidates, price, several, settings),
    }
}

/// Every new node may cost what its cheapest type costs at worst, and an equal share of what is saved beyond that.
fn replace(
    candidates: &[&Candidate],
    price: MicroDollars,
    replacements: &[Replacement],
    settings: Settings,
) -> Decision {
    let spot_again = replacements.iter().any(|r| r.allows_spot) && candidates.iter().all(|c| c.spot);
    if spot_again && !settings.spot_to_spot {
        return Decision::Leave(Refusal::SpotToSpotDisabled);
    }
    let least = |r: &Replacement| r.types.iter().map(|t| t.worst_price).min().unwrap_or(MicroDollars::MAX);
    let together: MicroDollars = replacements.iter().map(least).sum();
    if together >= price {
        return Decision::Leave(Refusal::NotCheaper);
    }
    let count = i64::try_from(replacements.len()).unwrap_or(i64::MAX).max(1);
    let share = MicroDollars::new(((price - together).get() - 1) / count);
    let mut kept = Vec::with_capacity(replacements.len());
    for replacement in replacements {
        let ceiling = least(replacement) + share;
        let types: Vec<usize> =
            (0..replacement.types.len()).filter(|&t| replacement.types[t].worst_price <= ceiling).collect();
        if let Some(refusal) = lacking_values(replacement, &types) {
            return Decision::Leave(refusal);
        }
        // The rule against replacing one spot node again and again holds for each of several that take its place.
        if spot_again && candidates.len() == 1 && types.len() < SPOT_TO_SPOT_TYPES {
            return Decision::Leave(Refusal::TooFewSpotTypes { found: types.len() });
        }
        kept.push(Kept { types, pin_spot: replacement.allows_spot && replacement.allows_on_demand });
    }
    Decision::Replace(kept)
}

fn spot_to_spot(
    candidates: &[&Candidate],
    price: MicroDollars,
    replacement: &Replacement,
    settings: Settings,
) -> Decision {
    if !settings.spot_to_spot {
        return Decision::Leave(Refusal::SpotToSpotDisabled);
    }
    let is_cheaper = |t: &TypeOption| t.worst_spot_price.is_some_and(|spot| spot < price);
    let mut cheaper: Vec<usize> =
        (0..replacement.types.len()).filter(|&index| is_cheaper(&replacement.types[index])).collect();
    if cheaper.is_empty() {
        return Decision::Leave(Refusal::NotCheaper);
    }
    if let Some(refusal) = lacking_values(replacement, &cheaper) {
        return Decision::Leave(refusal);
    }
    if candidates.len() == 1 {
        if cheaper.len() < SPOT_TO_SPOT_TYPES {
            return Decision::Leave(Refusal::TooFewSpotTypes { found: cheaper.len() });
        }
        let mut kept = SPOT_TO_SPOT_TYPES;
        while kept < cheaper.len() && lacking_values(replacement, &cheaper[..kept]).is_some() {
            kept += 1;
        }
        cheaper.truncate(kept);
    }
    Decision::Replace(vec![Kept { types: cheaper, pin_spot: true }])
}

fn lacking_values(replacement: &Replacement, types: &[usize]) -> Option<Refusal> {
    replacement.min_values.iter().find_map(|demand| {
        let values: BTreeSet<&String> = types.iter().flat_map(|&t| demand.values.get(t)).flatten().collect();
        (values.len() < demand.wanted).then(|| Refusal::MinValues { key: demand.key.clone() })
    })
}

/// Several nodes must not be replaced by one of a type that is among them at no lower price than its own: then it is better to
/// keep that one and delete the others. Narrows a [`Decision::Replace`], or turns it down.
pub fn same_type_guard(
    candidates: &[&Candidate],
    replacements: &[Replacement],
    decision: Decision,
) -> Decision {
    let Decision::Replace(kept) = decision else { return decision };
    let mut narrowed = Vec::with_capacity(kept.len());
    for (replacement, kept) in replacements.iter().zip(kept) {
        let own_price = |t: &usize| {
            let name = &replacement.types[*t].name;
            candidates.iter().filter(|c| c.instance_type.as_ref() == Some(name)).map(|c| c.price).min()
        };
        let Some(ceiling) = kept.types.iter().filter_map(own_price).min() else {
            narrowed.push(kept);
            continue;
        };
        let types: Vec<usize> =
            kept.types.into_iter().filter(|&t| replacement.types[t].worst_price < ceiling).collect();
        if types.is_empty() {
            return Decision::Leave(Refusal::NotCheaper);
        }
        if let Some(refusal) = lacking_values(replacement, &types) {
            return Decision::Leave(refusal);
        }
        narrowed.push(Kept { types, pin_spot: kept.pin_spot });
    }
    Decision::Replace(narrowed)
}

//! What a pod has to give up of its preferences to have a place at all.

use crate::Snapshot;
use crate::engine::demand::{Origin, demands};
use crate::engine::state::State;
use crate::options::Options;
use crate::pack::greedy::place_on_rung;
use crate::relax::given_up;

/// What a pod that waits would have to give up, in this order, if it were the only one to wait. Empty where it need not, and where nothing helps.
pub fn relaxed(snapshot: &Snapshot, namespace: &str, name: &str, options: &Options) -> Vec<String> {
    let world = &*snapshot.world;
    let Some(pod) = world.pending.iter().find(|p| &*p.namespace == namespace && &*p.name == name) else {
        return Vec::new();
    };
    let demands = demands(world, Vec::new(), std::iter::once((pod, Origin::Pending)));
    let mut state = State::new(world, options, &demands, &[]);
    let class = state.class_of(0);
    if class.spec.uses_resource_claims {
        return Vec::new();
    }
    let rungs = class.ladder(options.preferences).len();
    let fits = (0..rungs).find(|&rung| place_on_rung(&mut state, 0, rung as u16, 1, &|| true) > 0);
    // Tolerating soft taints is the last step of every ladder, whether it is there or not.
    let dropped = given_up(&class.spec, options.preferences, true);
    dropped.iter().take(fits.unwrap_or(0)).map(ToString::to_string).collect()
}

//! Which drifted nodes go next. Drift asks no price: what it removes is wrong, not dear, so the order is all there is to choose.
//!
//! Pools with a fixed number of nodes are apart: each of their nodes is replaced by one of the same pool, without asking where its
//! pods would go, as far as budget and `limits.nodes` have room.

use std::sync::Arc;

use jiff::Timestamp;

/// A drifted node that nothing holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    pub node: Arc<str>,
    pub pool: Arc<str>,
    /// Transition of the condition.
    pub since: Timestamp,
    /// Pods that must move. Unlike for emptiness, what they cost does not matter.
    pub pods: u32,
}

/// Nodes without pods first, since they disturb nobody; then those that have been wrong for longest.
pub fn sort(drifted: &mut [Drifted]) {
    drifted.sort_by(|a, b| {
        let key = |d: &Drifted| (d.pods > 0, d.since, Arc::clone(&d.node));
        key(a).cmp(&key(b))
    });
}

/// A pool with a fixed number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedPool {
    pub replicas: u32,
    /// `limits.nodes`.
    pub limit: Option<u32>,
    /// Its claims, by what becomes of them; every claim is in one of the three.
    pub active: u32,
    /// To be replaced by a command under way.
    pub replacing: u32,
    pub deleting: u32,
    /// Claims that were granted and are not created yet.
    pub granted: u32,
}

impl FixedPool {
    /// How many of `drifted` nodes may be replaced now, with `budget` disruptions left. Above its replicas the pool shrinks first;
    /// nodes that are leaving count against the limit until they are gone.
    pub fn grant(self, drifted: u32, budget: u32) -> u32 {
        if self.active.saturating_add(self.replacing) > self.replicas {
            return 0;
        }
        let wanted = drifted.min(budget);
        let taken =
            [self.replacing, self.deleting, self.granted].into_iter().fold(self.active, u32::saturating_add);
        self.limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(taken)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drifted(node: &str, since: i64, pods: u32) -> Drifted {
        Drifted {
            node: Arc::from(node),
            pool: Arc::from("default"),
            since: Timestamp::from_second(since).unwrap(),
            pods,
        }
    }

    // Cases: DRC-19
    #[test]
    fn empty_nodes_go_first_and_then_the_longest_drifted() {
        let mut all = [
            drifted("late", 300, 2),
            drifted("early", 100, 9),
            drifted("empty-late", 400, 0),
            drifted("empty", 200, 0),
            drifted("tie-b", 100, 1),
        ];
        sort(&mut all);
        assert_eq!(all.map(|d| d.node.to_string()), ["empty", "empty-late", "early", "tie-b", "late"]);
    }

    fn pool(replicas: u32, limit: Option<u32>) -> FixedPool {
        FixedPool { replicas, limit, active: replicas, ..FixedPool::default() }
    }

    // Cases: SDR-1, SDR-4, SDR-5, SDR-6, SDR-10, SDR-11
    #[test]
    fn a_fixed_pool_is_replaced_as_far_as_budget_and_limit_have_room() {
        assert_eq!(pool(10, Some(20)).grant(10, 3), 3, "the budget");
        assert_eq!(pool(10, Some(20)).grant(2, 3), 2, "the nodes that drifted");
        assert_eq!(pool(10, Some(10)).grant(10, 3), 0, "no room under the limit");
        assert_eq!(pool(10, Some(12)).grant(10, 5), 2, "some room");
        assert_eq!(pool(10, None).grant(10, 10), 10, "no limit");
        assert_eq!(pool(10, Some(20)).grant(10, 0), 0, "no budget");
        assert_eq!(pool(0, Some(5)).grant(0, 5), 0, "no replicas");
    }

    // Cases: SDR-8
    #[test]
    fn a_fixed_pool_above_its_replicas_shrinks_first() {
        assert_eq!(FixedPool { active: 11, ..pool(10, None) }.grant(5, 5), 0);
        let replacing = FixedPool { active: 9, replacing: 1, ..pool(10, None) };
        assert_eq!(replacing.grant(5, 5), 5);
        assert_eq!(FixedPool { active: 10, replacing: 1, ..pool(10, None) }.grant(5, 5), 0);
    }

    // Cases: SDR-7
    #[test]
    fn a_fixed_pool_goes_on_by_the_room_it_has() {
        // Three of headroom: three are replaced, and while the old ones leave there is none.
        let three = pool(10, Some(13));
        assert_eq!(three.grant(10, 10), 3);
        let under_way = FixedPool { active: 7, replacing: 3, granted: 3, ..three };
        assert_eq!(under_way.grant(7, 10), 0);
        let leaving = FixedPool { active: 10, replacing: 0, deleting: 3, granted: 0, ..three };
        assert_eq!(leaving.grant(7, 10), 0);
        let gone = FixedPool { active: 10, ..three };
        assert_eq!(gone.grant(7, 10), 3);
    }
}

//! The plainest packing: sizes in order, the dearest first, each pod onto the first node that has room, else onto a new node of
//! the kind that is cheapest for it. It is among the packings that are tried, so that no plan costs more than this one.

use super::columns::best_alone;
use super::problem::{KindId, Load, Problem, SizeId};

/// What kind of node is opened for pods that no node has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    /// The cheapest that holds one of them.
    Cheapest,
    /// The one in which such pods alone cost least each.
    BestAlone,
}

struct Node {
    load: Load,
    room: Vec<i64>,
    /// Rules whose caps pods here share, and how many there are.
    exclusions: Vec<(u32, u32)>,
}

/// The cheaper of the two. `None` if there was no time for it. Every size has some kind.
pub(crate) fn pack(problem: &Problem, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<Vec<Load>> {
    let one = first_fit(problem, Opened::Cheapest, keep_going)?;
    let other = first_fit(problem, Opened::BestAlone, keep_going)?;
    Some(if problem.cost(&other) < problem.cost(&one) { other } else { one })
}

fn first_fit(problem: &Problem, opened: Opened, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<Vec<Load>> {
    let cheapest: Vec<KindId> = problem.sizes.iter().map(|size| cheapest(problem, size)).collect();
    let mut order: Vec<usize> = (0..problem.sizes.len()).collect();
    let price = |size: usize| problem.kinds[cheapest[size] as usize].price;
    order.sort_by(|a, b| {
        let request = |size: usize| &problem.sizes[size].request;
        price(*b).cmp(&price(*a)).then_with(|| request(*b).cmp(request(*a))).then(a.cmp(b))
    });
    let mut nodes: Vec<Node> = Vec::new();
    for size in order {
        if !keep_going() {
            return None;
        }
        let mut left = problem.sizes[size].count;
        for node in &mut nodes {
            if left == 0 {
                break;
            }
            left -= node.put(problem, size, left);
        }
        let kind = match opened {
            Opened::Cheapest => cheapest[size],
            Opened::BestAlone => best_alone(problem, size).0,
        };
        while left > 0 {
            let room = problem.kinds[kind as usize].room.to_vec();
            let mut node = Node { load: Load { kind, content: Vec::new() }, room, exclusions: Vec::new() };
            let count = node.put(problem, size, left);
            if count == 0 {
                return None;
            }
            left -= count;
            nodes.push(node);
        }
    }
    Some(nodes.into_iter().map(|node| node.load).collect())
}

fn cheapest(problem: &Problem, size: &super::problem::Size) -> KindId {
    let kinds = size.kinds.iter().map(|kind| kind as KindId);
    kinds.min_by_key(|kind| (problem.kinds[*kind as usize].price, *kind)).unwrap_or(0)
}

impl Node {
    /// Puts up to `want` pods here; returns how many.
    fn put(&mut self, problem: &Problem, size: usize, want: u32) -> u32 {
        let data = &problem.sizes[size];
        if !crate::dims::fits(&data.request, &self.room) || !data.kinds.has(self.load.kind as usize) {
            return 0;
        }
        let used =
            |exclusion: u32| self.exclusions.iter().find(|(e, _)| *e == exclusion).map_or(0, |(_, n)| *n);
        let cap = data.cap.saturating_sub(data.exclusion.map_or(0, used));
        let count = crate::dims::times(&data.request, &self.room).min(cap).min(want);
        if count == 0 {
            return 0;
        }
        self.room.iter_mut().zip(&data.request).for_each(|(have, need)| *have -= need * i64::from(count));
        self.load.content.push((size as SizeId, count));
        if let Some(exclusion) = data.exclusion {
            match self.exclusions.iter_mut().find(|(e, _)| *e == exclusion) {
                Some((_, n)) => *n += count,
                None => self.exclusions.push((exclusion, count)),
            }
        }
        count
    }
}

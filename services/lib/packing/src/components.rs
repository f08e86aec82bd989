//! Parts of a problem that have no kind in common: items of teams with bins of their own, for example. Each is packed,
//! and bounded, by itself.

use super::problem::{KindId, Load, Problem, Size, SizeId};
use crate::bits::Bits;

pub(crate) struct Component {
    pub(crate) problem: Problem,
    /// What its sizes and kinds are in the whole.
    sizes: Vec<SizeId>,
    kinds: Vec<KindId>,
}

impl Component {
    /// The load as one of the whole.
    pub(crate) fn in_whole(&self, load: Load) -> Load {
        let content = load.content.into_iter().map(|(size, n)| (self.sizes[size as usize], n)).collect();
        Load { kind: self.kinds[load.kind as usize], content }
    }
}

impl Problem {
    /// In the order of their first sizes; kinds that hold nothing are in none.
    pub(crate) fn components(&self) -> Vec<Component> {
        let mut above: Vec<usize> = (0..self.sizes.len()).collect();
        for accepted in &self.accepts {
            for pair in accepted.windows(2) {
                let (a, b) = (top(&mut above, pair[0] as usize), top(&mut above, pair[1] as usize));
                above[a.max(b)] = a.min(b);
            }
        }
        let mut parts: Vec<(Vec<SizeId>, Vec<KindId>)> = Vec::new();
        let mut part_of: Vec<Option<usize>> = vec![None; self.sizes.len()];
        for size in 0..self.sizes.len() {
            let root = top(&mut above, size);
            let part = *part_of[root].get_or_insert_with(|| {
                parts.push((Vec::new(), Vec::new()));
                parts.len() - 1
            });
            parts[part].0.push(size as SizeId);
        }
        for (kind, accepted) in self.accepts.iter().enumerate() {
            let root = accepted.first().map(|size| top(&mut above, *size as usize));
            if let Some(part) = root.and_then(|root| part_of[root]) {
                parts[part].1.push(kind as KindId);
            }
        }
        parts.into_iter().map(|(sizes, kinds)| self.component(sizes, kinds)).collect()
    }

    fn component(&self, sizes: Vec<SizeId>, kinds: Vec<KindId>) -> Component {
        let renamed = |size: &SizeId| {
            let own = &self.sizes[*size as usize];
            let mut bits = Bits::new(kinds.len());
            let allowed = kinds.iter().enumerate().filter(|(_, kind)| own.kinds.has(**kind as usize));
            allowed.for_each(|(index, _)| bits.set(index));
            Size { kinds: bits, ..own.clone() }
        };
        let own_kinds = kinds.iter().map(|kind| self.kinds[*kind as usize].clone()).collect();
        let problem = Self::new(sizes.iter().map(renamed).collect(), own_kinds, self.dims(), self.tuning);
        Component { problem, sizes, kinds }
    }
}

fn top(above: &mut [usize], mut size: usize) -> usize {
    while above[size] != size {
        above[size] = above[above[size]];
        size = above[size];
    }
    size
}

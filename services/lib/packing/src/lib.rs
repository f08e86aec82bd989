//! Variable-sized bin packing by price: which bins to buy for a given set of items, and how little any choice can cost.
//!
//! It knows sizes of items, kinds of bins and prices. It knows no Kubernetes, no clock and no I/O. Equal input gives an equal
//! packing, on every machine.
//!
//! # The problem
//! Items come in sizes `s`, of which there are `n_s`; one takes `r_{s,d}` of resource `d`. Bins come in kinds `k`, as many as
//! are paid for; one costs `c_k` and has room `R_{k,d}`. A size lists the kinds that may hold it, may have a cap on how many
//! share a bin, and may share that cap with the other sizes of an exclusion. A [`Load`] is one bin: a kind, and how many of each
//! size are in it. A packing is a list of loads that holds all items.
//!
//! With a variable `x_l` for every possible load `l`, where `a_{s,l}` says how many items of size `s` it holds, the problem is
//! ```text
//!   minimise  Σ c_l x_l    such that    Σ a_{s,l} x_l ≥ n_s  for every size,    x_l a whole number ≥ 0
//! ```
//! There are too many loads to list. What follows is column generation (Gilmore and Gomory, 1961) and rounding.
//!
//! # Column generation (`columns`, `simplex`)
//! The programme without "whole number" is solved over the loads found so far. It starts with one load per size, the size
//! alone in its best kind, so that there is a feasible basis. Its duals `π_s` say what one item of each size should cost. A load
//! whose items are worth more than its price, `Σ a_{s,l} π_s > c_k`, improves the mix; to look for one is called pricing:
//! 1. `fill` fills a bin of every kind greedily by value for the share of the room that is left;
//! 2. `knapsack::rounded` cuts items (`fractional`), rounds down and fills up;
//! 3. `knapsack::search` branches until it has found a better load or knows that there is none.
//!
//! Each is slower than the one before and is asked only where that finds nothing. `simplex` is a revised simplex with an explicit
//! inverse: rows are sizes, of which there are at most a few hundred, so that a pivot is a few thousand operations.
//! `fractional` is a bounded simplex with a row per resource, for one bin. Both are written here because a general solver spends
//! more time on building a model than these on solving it: a what-if has microseconds.
//!
//! # The bound (`bound`, `knapsack`)
//! For any values `v_s ≥ 0`, let `ω = max_k (most value that a bin of kind k can hold) / c_k`, and at least 1. Then no packing
//! costs less than `Σ n_s v_s / ω`: each bin of it holds at most `ω c_k` of value, and all value is held by some bin. This is
//! weak duality, and it holds for whatever values the simplex stopped at, optimal or not, rounded or not. The most value that a
//! bin can hold is bounded from above in turn: for any resource prices `p_d ≥ 0` it is at most
//! `Σ R_d p_d + Σ most_s · max(0, v_s − Σ r_{s,d} p_d)`; good prices, which `fractional` finds, make that tight, and branching
//! closes the rest. Caps are forgotten or kept; to forget one only lowers the bound. Last, the sum is rounded down by far more
//! than floating-point error (`tuning::numeric`). A [`Relaxation`] is the only way to a [`LowerBound`].
//!
//! Parts of a problem that share no kind (`components`) are packed and bounded one by one. Very few items are packed by
//! trying all ways (`exact`), whose cost is its own bound.
//!
//! # Rounding (`construct`, `dive`, `improve`)
//! `construct` takes every load of the mix as often as its whole part says and fills up the rest by value for money, with the
//! duals as values. `dive` finds the mix for the rest anew after every rounding. `improve` empties a few bins, mostly those with
//! the least value for their price, packs them again at slightly tilted values, and keeps what is cheaper. `simple` is first fit
//! with the cheapest kind for every item; the result is never dearer than that.
//!
//! # Determinism
//! What fits, what a packing costs and which of two packings is cheaper is decided in integers. Floating-point numbers choose
//! what is tried next. They go through `+ - * /`, square roots, comparisons and conversions only, which IEEE 754 rounds alike on
//! every machine; Rust neither fuses nor reorders them. Sums run in the order of indices, ties are broken by index, "chance" is a
//! counter, and no result depends on threads or on the order of a hash map. Plans are compared with recorded hashes in the
//! solver's tests.
//!
//! # Where to change what
//! Every constant is a field of [`Tuning`]. The order of attempts is `pack`. A new constraint on a bin is a field of [`Size`]
//! that `fill::Scratch::most`, `exact::holds`, `simple::Bin::put` and `knapsack::Bounded::step` respect; bounds may ignore it.

mod amounts;
mod bits;
mod bound;
mod columns;
mod components;
mod construct;
mod dive;
mod exact;
mod fill;
mod fractional;
mod improve;
mod knapsack;
mod pack;
mod problem;
mod simple;
mod simplex;
mod tuning;

pub use amounts::{fits, times};
pub use bits::Bits;
pub use bound::{LowerBound, Relaxation};
pub use pack::{Effort, Packing, pack};
pub use problem::{Kind, KindId, Load, Problem, Size, SizeId};
pub use tuning::{Patience, Tuning};

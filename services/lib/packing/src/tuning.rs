//! Every constant of the packing.

/// How much work is spent where. No value makes a packing invalid or a bound too high: what fits is asked in integers, and
/// bounds are certified whatever led to them. Values trade time against cost, and time against the closeness of the bound.
///
/// The defaults were chosen on the rows of `solver-bench`: `mix-*` (the benchmark mix of 1,000 to 20,000 items under rules),
/// `preferences-4000`, `gap` (22 plain workloads of 500 to 10,000 items on the full catalogue of 850 kinds), `gap-gpu`,
/// `gap-teams`, `gap-storage`, `gap-ten-items`, and the seven `*-N` rows of sheer size. Each field names the row that shows it
/// first when it is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    // ---- Improvement: attempts to empty a few bins and pack them again.
    /// Attempts for [`crate::Effort::Quick`] (`removal-full-1000`).
    pub quick_rounds: usize,
    /// Least and most attempts for [`crate::Effort::Full`] (`mix-*`).
    pub least_rounds: usize,
    pub most_rounds: usize,
    /// Attempts × (bins + sizes) for [`crate::Effort::Full`]: an attempt takes longer the more of both there are (`mix-20000`).
    pub rounds_times_parts: usize,
    /// Attempts per bin, at most: few bins have few ways to be better (`gap-ten-items`).
    pub rounds_per_bin: usize,
    /// Most attempts in one batch, and attempts × (bins + sizes), for [`crate::Effort::Proven`] (`gap`).
    pub proven_rounds: usize,
    pub proven_rounds_times_parts: usize,
    /// Batches for [`crate::Effort::Proven`], each of which looks at twice as many bins as the last (`gap`).
    pub most_batches: usize,
    /// Batches that are tried even if they gain little.
    pub patient_batches: usize,
    /// A batch gains little if it lowers the cost by less than one part in this many.
    pub little_gain: i64,
    /// A packing that is above its bound by less than one part in this many is good enough (`gap`: 1.5 %).
    pub close_to_bound: i64,
    /// The bins with the least value for their price, among which most of an attempt's are chosen: quick and first proven
    /// batch, and full.
    pub worst_bins: usize,
    pub worst_bins_of_full: usize,
    /// Kinds that are tried for emptied bins, beside those in use (`gap`).
    pub most_kinds: usize,
    /// The least value for its price, at all items, of a kind that is tried.
    pub useful_ratio: f64,
    /// By how much a kind may hold more value at tilted values than at the duals.
    pub tilted_more: f64,
    /// Attempts between two looks at the deadline.
    pub rounds_per_deadline: usize,

    // ---- Repeated rounding of the optimal mix.
    /// Bins + sizes of a packing under rules, and sizes of a proven one, up to which the mix is found again and again
    /// (`gap-teams`; `gap`).
    pub most_parts_to_dive: usize,
    pub most_sizes_to_dive: usize,
    /// Mixes that are found anew before the rest is filled up.
    pub most_mixes: usize,
    /// The part of a load in the mix from which it is taken whole.
    pub nearly_whole: f64,

    // ---- Column generation.
    /// Sizes up to which the linear programme is solved; beyond, an easier problem or resource prices must do. Without and with
    /// a proof (`classes-2000`; `gap`). A pivot takes sizes² operations.
    pub most_sizes: usize,
    pub most_sizes_proven: usize,
    /// Pairs of size and kind that pricing looks at in all, with a proof, and the part of it without (`gap`; `mix-*`).
    pub most_work: usize,
    pub work_without_proof: usize,
    /// Entries of the programme's inverse that take as long to update as one such pair.
    pub entries_per_pair: usize,
    /// Loads after which a round of pricing ends.
    pub loads_per_round: usize,
    /// How much more than its price a load found by filling must be worth to be added.
    pub fill_margin: f64,
    /// The weight of earlier rounds in smoothed values.
    pub inertia: f64,
    /// The least part of its resource price that a size is worth: a dual of zero would leave it out of every fill.
    pub least_value: f64,
    /// Loads that are kept for the packing: worth at least this part of their price, and how many.
    pub good_ratio: f64,
    pub most_good: usize,
    /// Pivots of one optimisation: so many per size, and so many more. Pivots of the programme of resource prices.
    pub pivots_per_size: usize,
    pub more_pivots: usize,
    pub resource_pivots: usize,
    /// Thorough searches × sizes: one takes the longer the more sizes there are (`gap`).
    pub searches_times_sizes: usize,
    /// The bound is close enough to the cost of the mix: 0.8 % (`gap`).
    pub close_to_mix: f64,
    /// By which part a round has to lower the cost of the mix, and how many may fail to in a row, before the search for loads
    /// is more thorough or ends; by kind of proof.
    pub patience: Patience,

    // ---- Knapsacks: the most value that a kind can hold.
    /// Steps of branching per kind, and in one search over all kinds (`gap`).
    pub most_steps: u32,
    pub most_steps_in_all: u32,
    /// With more sizes than this a search has fewer steps, in proportion.
    pub sizes_per_step: u32,
    /// Steps per kind that look for resource prices of their own, and such steps × sizes² in one search.
    pub most_cuts: u32,
    pub cuts_times_sizes_squared: u32,
    /// Prices found for other kinds that are tried before a kind gets its own: to try is far quicker than to find.
    pub prices_to_try: usize,
    /// How much more than its price a load may hold without being looked for: 0.6 %. The bound loses as much (`gap`).
    pub slack: f64,
    /// How much more than its price a load found by rounding, or by branching, must be worth to be added.
    pub rounded_margin: f64,
    pub branched_margin: f64,
    /// Loads that one search adds.
    pub loads_per_search: usize,

    // ---- Filling one bin by value.
    /// The part of what still fits that is taken at a time: as one resource runs out another size becomes the better one.
    pub take_one_in: u32,
    /// The part of the whole room that is added to what is left, so that a resource that is nearly used up is dear, not
    /// infinitely so.
    pub last_room: f64,
    /// Looks between two removals of sizes that do not fit any more.
    pub looks_before_compacting: usize,

    // ---- Exact packing, relaxations and the choice of kinds.
    /// Pairs of a set of items and a part of it that exact packing tries (`gap-ten-items`; 1,000,000 take about 10 ms).
    pub most_pairs: usize,
    /// Exclusions that force at least one part in this many of the most bins are kept when a problem is eased.
    pub eased_part: u32,
    /// Sizes up to which a bound beside a packing is proven by search, and beyond which the problem is eased first
    /// (`mix-*`: the bound is computed beside the packing).
    pub few_sizes: usize,
    pub many_sizes: usize,
    /// Sizes × kinds beyond which a bound is worth a thread of its own.
    pub long_bound: usize,
    /// Kinds of a large catalogue that a packing under rules looks at, per group of offerings and set of resources
    /// (`mix-*`, `deployments-100000`): the best, and the best of each doubling of the price.
    pub best_kinds: usize,
    pub best_kinds_per_doubling: u32,
    /// The weight of the resources that are not scarcest when kinds are compared.
    pub plenty: f64,
}

/// By which part a round has to lower the cost of the mix, and how many rounds in a row may fail to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    pub rough: (f64, usize),
    pub none: (f64, usize),
    pub quick: (f64, usize),
    pub exact: (f64, usize),
}

impl Tuning {
    pub const DEFAULT: Self = Self {
        quick_rounds: 20,
        least_rounds: 150,
        most_rounds: 1500,
        rounds_times_parts: 300_000,
        rounds_per_bin: 120,
        proven_rounds: 2000,
        proven_rounds_times_parts: 3_000_000,
        most_batches: 6,
        patient_batches: 2,
        little_gain: 2000,
        close_to_bound: 66,
        worst_bins: 8,
        worst_bins_of_full: 32,
        most_kinds: 64,
        useful_ratio: 0.85,
        tilted_more: 1.25,
        rounds_per_deadline: 16,
        most_parts_to_dive: 60,
        most_sizes_to_dive: 100,
        most_mixes: 40,
        nearly_whole: 0.9,
        most_sizes: 100,
        most_sizes_proven: 320,
        most_work: 6_000_000,
        work_without_proof: 16,
        entries_per_pair: 64,
        loads_per_round: 8,
        fill_margin: 1e-3,
        inertia: 0.7,
        least_value: 0.05,
        good_ratio: 0.96,
        most_good: 400,
        pivots_per_size: 4,
        more_pivots: 50,
        resource_pivots: 2000,
        searches_times_sizes: 300,
        close_to_mix: 0.008,
        patience: Patience { rough: (1e-2, 1), none: (1e-4, 4), quick: (1e-3, 2), exact: (1e-4, 12) },
        most_steps: 60_000,
        most_steps_in_all: 600_000,
        sizes_per_step: 60,
        most_cuts: 1500,
        cuts_times_sizes_squared: 12_000_000,
        prices_to_try: 16,
        slack: 0.006,
        rounded_margin: 1e-4,
        branched_margin: 1e-6,
        loads_per_search: 20,
        take_one_in: 3,
        last_room: 0.02,
        looks_before_compacting: 6,
        most_pairs: 1_000_000,
        eased_part: 4,
        few_sizes: 12,
        many_sizes: 60,
        long_bound: 500,
        best_kinds: 16,
        best_kinds_per_doubling: 3,
        plenty: 0.1,
    };
}

impl Default for Tuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Floating-point numbers guide the search and nothing else, so their errors cost at most a worse packing. Two places turn them
/// into statements, and both err on the safe side: [`CAUTION`] and [`ROUNDING`].
pub(crate) mod numeric {
    /// Reduced costs, pivots and basic values below this, relative to the columns' scale, count as zero in both simplexes. A
    /// wrong zero ends a programme early or takes a useless pivot; the duals are certified afterwards in any case.
    pub(crate) const TOLERANCE: f64 = 1e-9;
    /// The part by which a certified bound is rounded down. Sums of up to 10⁵ products of doubles are off by less than 10⁻¹⁰ of
    /// their value, so that 10⁻⁷ is a thousand times more than needed; on a bill of $1,000 per hour it is 0.01 cents.
    pub(crate) const CAUTION: f64 = 1e-7;
    /// The part by which savings are rounded up before they are taken off a bound; see [`CAUTION`] for what comes after.
    pub(crate) const ROUNDING: f64 = 1e-9;
    /// The part by which single-precision room is rounded up, so that no item that just fits is passed over: single precision
    /// is off by at most 6·10⁻⁸ twice. Whether an item fits is asked in integers before it is taken.
    pub(crate) const ROOMY: f32 = 1e-6;
    /// The part of an item by which rounding may have fallen short of a whole one.
    pub(crate) const NEARLY_ONE: f64 = 1e-6;
    /// The least price of resources that a density divides by.
    pub(crate) const LEAST_WORTH: f64 = 1e-12;
    /// Pivots after which duals are computed afresh instead of being updated.
    pub(crate) const PIVOTS_PER_REFRESH: usize = 64;
    /// Newest columns, which are asked first for one that enters the basis.
    pub(crate) const RECENT_COLUMNS: usize = 24;
    /// Most pivots for one bin whose items may be cut; the prices are valid for bounding whenever it stops.
    pub(crate) const MOST_PIVOTS: usize = 500;
}

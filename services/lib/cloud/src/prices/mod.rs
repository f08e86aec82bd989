//! The built-in price table: what on-demand and spot capacity of Linux roughly costs where no price list can be read and
//! nothing was remembered. Figures of August 2026, compact: a rate by vCPU for each family, exceptions by type, a factor
//! for each region. Better than nothing and nothing more: a real price always wins.
//!
//! Prices are in the currency of the region, as EC2's spot prices and the price list are: in China yuan, so that a factor there
//! contains the rate of exchange. (The factor of cn-northwest-1 is that of cn-north-1; AWS is somewhat cheaper there.)
//!
//! `table.csv` has three kinds of rows:
//! ```text
//! family,<name>,<micro-dollars an hour for one vCPU in us-east-1>,<spot in thousandths of on-demand>
//! type,<name>,<micro-dollars an hour in us-east-1>,
//! region,<name>,<thousandths of us-east-1>,
//! ```

use std::collections::BTreeMap;
use std::sync::OnceLock;

use model::price::MicroDollars;

use crate::facts::TypeFacts;

const TABLE: &str = include_str!("table.csv");
const THOUSAND: i64 = 1000;

struct Table {
    families: BTreeMap<&'static str, Family>,
    types: BTreeMap<&'static str, i64>,
    regions: BTreeMap<&'static str, i64>,
}

struct Family {
    micro_per_vcpu: i64,
    spot_thousandths: Option<i64>,
}

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| {
        let mut table = Table { families: BTreeMap::new(), types: BTreeMap::new(), regions: BTreeMap::new() };
        for line in TABLE.lines() {
            let mut fields = line.split(',');
            let (Some(kind), Some(name), Some(Ok(figure))) =
                (fields.next(), fields.next(), fields.next().map(str::parse::<i64>))
            else {
                continue;
            };
            match kind {
                "family" => {
                    let spot_thousandths = fields.next().and_then(|f| f.parse().ok());
                    table.families.insert(name, Family { micro_per_vcpu: figure, spot_thousandths });
                }
                "type" => {
                    table.types.insert(name, figure);
                }
                _ => {
                    table.regions.insert(name, figure);
                }
            }
        }
        table
    })
}

/// The on-demand price of a type in a region; regions the table does not know cost what us-east-1 costs. `None` for types
/// of families it does not know.
pub fn on_demand(facts: &TypeFacts, region: &str) -> Option<MicroDollars> {
    let table = table();
    let base = match table.types.get(facts.name.as_str()) {
        Some(price) => *price,
        None => {
            let family = table.families.get(family_of(&facts.name))?;
            family.micro_per_vcpu.saturating_mul(i64::from(facts.vcpus))
        }
    };
    let factor = table.regions.get(region).copied().unwrap_or(THOUSAND);
    (base > 0).then(|| MicroDollars::new(base.saturating_mul(factor) / THOUSAND))
}

/// What spot capacity of the type's family usually costs there. `None` where the table knows no usual discount.
pub fn spot(facts: &TypeFacts, region: &str) -> Option<MicroDollars> {
    let usual = table().families.get(family_of(&facts.name))?.spot_thousandths?;
    let price = on_demand(facts, region)?.get().saturating_mul(usual) / THOUSAND;
    (price > 0).then(|| MicroDollars::new(price))
}

/// Whether the table has figures for this very region, or takes those of us-east-1.
pub fn knows_region(region: &str) -> bool {
    table().regions.contains_key(region)
}

fn family_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(family, _)| family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, vcpus: u32) -> TypeFacts {
        TypeFacts { name: name.into(), vcpus, ..TypeFacts::default() }
    }

    #[test]
    fn prices_are_rate_times_vcpus_unless_the_type_has_its_own() {
        for (name, vcpus, region, expected) in [
            ("c5.large", 2, "us-east-1", Some(85_000)),
            ("c5.24xlarge", 96, "us-east-1", Some(4_080_000)),
            ("g5.xlarge", 4, "us-east-1", Some(1_006_000)),
            ("c5.large", 2, "us-west-1", Some(99_195)),
            ("c5.large", 2, "us-gov-west-1", Some(102_000)),
            ("c5.large", 2, "cn-north-1", Some(824_500)),
            ("c5.large", 2, "mars-north-1", Some(85_000)),
            ("zz9.large", 2, "us-east-1", None),
        ] {
            let found = on_demand(&facts(name, vcpus), region).map(MicroDollars::get);
            assert_eq!(found, expected, "{name} in {region}");
        }
        assert!(knows_region("eu-west-1") && !knows_region("mars-north-1"));
    }

    #[test]
    fn spot_is_never_dearer_than_on_demand() {
        for family in table().families.keys() {
            let facts = facts(&format!("{family}.large"), 2);
            if let (Some(spot), Some(full)) = (spot(&facts, "us-east-1"), on_demand(&facts, "us-east-1")) {
                assert!(spot <= full, "{family}");
            }
        }
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = TABLE.lines().count();
        let table = table();
        assert_eq!(table.families.len() + table.types.len() + table.regions.len(), rows);
        assert!(rows > 250);
    }
}

//! Limits that EC2's API does not tell: how many branch interfaces (pods with security groups of their own) a type has.
//! Figures as the VPC resource controller publishes them (release 1.8.2), which is what hands the interfaces out.
//!
//! `branch_interfaces.txt` has one row for each size and figure: `<size> <figure> <family>,<family>,…`. A type that is not
//! in it has none, or is not known.

use std::collections::BTreeMap;
use std::sync::OnceLock;

const ROWS: &str = include_str!("branch_interfaces.txt");

type Table = BTreeMap<(&'static str, &'static str), u32>;

fn table() -> &'static Table {
    static READ: OnceLock<Table> = OnceLock::new();
    READ.get_or_init(|| {
        let row = |line: &'static str| {
            let mut fields = line.split(' ');
            let (size, figure, families) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?);
            Some(families.split(',').map(move |family| ((family, size), figure)))
        };
        ROWS.lines().filter_map(row).flatten().collect()
    })
}

/// `None` where trunking is not supported, or the type is newer than the table.
pub fn branch_interfaces(instance_type: &str) -> Option<u32> {
    let parts = instance_type.split_once('.')?;
    table().get(&parts).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_interfaces_are_known_for_types_that_support_trunking() {
        for (name, expected) in [
            ("m5.large", Some(9)),
            ("m6g.medium", Some(4)),
            ("p4d.24xlarge", Some(62)),
            ("g4dn.xlarge", Some(39)),
            ("c5.24xlarge", Some(107)),
            ("t3.large", None),
            ("zz9.large", None),
            ("odd", None),
        ] {
            assert_eq!(branch_interfaces(name), expected, "{name}");
        }
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let listed: usize = ROWS.lines().map(|line| line.matches(',').count() + 1).sum();
        assert_eq!(table().len(), listed);
        assert!(listed > 1300);
    }
}

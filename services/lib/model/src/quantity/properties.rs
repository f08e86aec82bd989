//! Laws of quantities over generated values.

use proptest::prelude::*;

use super::{Format, Quantity};

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

fn quantity() -> impl Strategy<Value = Quantity> {
    let nano = prop_oneof![
        -5_000_000_000_000_i128..5_000_000_000_000,
        (-1_000_i128..1_000).prop_map(|units| units * 1_000_000_000 * 1024),
        any::<i64>().prop_map(|units| i128::from(units) * 1_000_000_000),
        any::<i128>(),
    ];
    (nano, format()).prop_map(|(nano, format)| Quantity::from_nano(nano, format))
}

/// What can be read: a binary suffix is capped at i64 when read; sums beyond it exist only in arithmetic.
fn readable() -> impl Strategy<Value = Quantity> {
    const CAP: i128 = i64::MAX as i128 * 1_000_000_000;
    quantity().prop_map(|q| match q.format() {
        Format::BinarySi => Quantity::from_nano(q.nano().clamp(-CAP, CAP), Format::BinarySi),
        Format::DecimalSi | Format::DecimalExponent => q,
    })
}

/// A text and its value in nano-units, worked out apart from the parser.
fn written() -> impl Strategy<Value = (String, i128)> {
    let suffixes = vec![
        ("n", 1_i128),
        ("u", 1_000),
        ("m", 1_000_000),
        ("", 1_000_000_000),
        ("k", 1_000_000_000_000),
        ("e2", 100_000_000_000),
        ("Ki", 1024 * 1_000_000_000),
        ("Mi", 1024 * 1024 * 1_000_000_000),
    ];
    (-5000_i32..5000, proptest::sample::select(suffixes))
        .prop_map(|(number, (suffix, nano))| (format!("{number}{suffix}"), i128::from(number) * nano))
}

proptest! {
    #[test]
    fn parsing_what_was_printed_gives_the_same_value(q in readable()) {
        prop_assert_eq!(q.to_string().parse::<Quantity>(), Ok(q));
    }

    /// From the second printing on: a binary quantity that no power of 1024 divides is printed without a suffix, as
    /// upstream does, and what has no suffix is read as decimal (1000 in binary notation prints `1000`, then `1k`).
    #[test]
    fn printing_comes_to_a_fixed_point(q in readable()) {
        let print = |text: String| text.parse::<Quantity>().map(|q| q.to_string()).expect("what was printed is read");
        let first = q.to_string();
        let second = print(first.clone());
        if first.ends_with('i') || q.format() != Format::BinarySi {
            prop_assert_eq!(&second, &first);
        }
        prop_assert_eq!(print(second.clone()), second);
    }

    #[test]
    fn order_of_written_quantities_is_the_order_of_their_values(a in written(), b in written()) {
        let ((a_text, a_nano), (b_text, b_nano)) = (a, b);
        let (a, b): (Quantity, Quantity) = (a_text.parse().expect("generated"), b_text.parse().expect("generated"));
        prop_assert_eq!(a.cmp(&b), a_nano.cmp(&b_nano), "{} and {}", a_text, b_text);
        prop_assert_eq!(a == b, a_nano == b_nano);
    }

    #[test]
    fn adding_then_subtracting_gives_back_the_value(a in -(10_i128.pow(36))..10_i128.pow(36), b in -(10_i128.pow(36))..10_i128.pow(36)) {
        let (a, b) = (Quantity::from_nano(a, Format::DecimalSi), Quantity::from_nano(b, Format::DecimalSi));
        prop_assert_eq!(a + b - b, a);
        prop_assert_eq!(a + b, b + a);
        prop_assert_eq!(a - b, -(b - a));
    }

    #[test]
    fn milli_rounding_encloses_a_positive_value(nano in 0_i128..i128::from(i64::MAX)) {
        let q = Quantity::from_nano(nano, Format::DecimalSi);
        let (floor, ceil) = (q.milli_floor(), q.milli_ceil());
        prop_assert!(Quantity::from_milli(floor) <= q && q <= Quantity::from_milli(ceil));
        prop_assert!(ceil - floor <= 1);
    }

    #[test]
    fn any_text_is_parsed_or_refused_without_panic(text in "[-+]?[0-9.]{0,60}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,22}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn arithmetic_never_panics(a in quantity(), b in quantity(), factor in any::<i64>()) {
        let _ = (a + b, a - b, -a, a.saturating_mul(factor), a.milli_ceil(), a.milli_floor(), a.value_ceil(), a.value_floor());
    }
}

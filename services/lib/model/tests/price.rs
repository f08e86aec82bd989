//! Prices: exact text, one rounding, saturating sums.

use model::price::{MicroDollars, PriceError};
use proptest::prelude::*;

fn price(text: &str) -> MicroDollars {
    text.parse().expect("a price")
}

#[test]
fn decimal_text_is_read_exactly() {
    for (text, micro) in [
        ("0", 0),
        ("0.0416", 41_600),
        ("0.0000010000", 1),
        ("1", 1_000_000),
        ("32.7726000000", 32_772_600),
        (".5", 500_000),
        ("5.", 5_000_000),
        ("-0.25", -250_000),
        ("+3", 3_000_000),
        ("9223372036854.775807", i64::MAX),
    ] {
        assert_eq!(price(text).get(), micro, "{text}");
    }
}

#[test]
fn digits_below_a_micro_dollar_are_rounded_half_away_from_zero() {
    assert_eq!(price("0.0000014").get(), 1);
    assert_eq!(price("0.0000015").get(), 2);
    assert_eq!(price("-0.0000015").get(), -2);
    assert_eq!(price("0.00000149999").get(), 1);
}

#[test]
fn what_is_no_price_is_refused_with_its_text() {
    for text in ["", ".", "-", "1,5", "$1", "1e3", "0.1.2", "NaN", " 1", "1 "] {
        let error = text.parse::<MicroDollars>().unwrap_err();
        assert_eq!(error, PriceError::Shape(text.to_owned()));
    }
    let large = "9223372036854.775808";
    assert_eq!(large.parse::<MicroDollars>(), Err(PriceError::TooLarge(large.to_owned())));
}

#[test]
fn printing_shows_no_more_decimals_than_needed() {
    for (micro, text) in [
        (0, "0"),
        (1, "0.000001"),
        (41_600, "0.0416"),
        (1_000_000, "1"),
        (-250_000, "-0.25"),
        (10_000_000, "10"),
        (i64::MIN, "-9223372036854.775808"),
    ] {
        assert_eq!(MicroDollars::new(micro).to_string(), text);
    }
}

// Cases: BAL-50
#[test]
fn floats_are_rounded_once_and_refused_when_they_are_no_price() {
    assert_eq!(MicroDollars::from_f64(0.1 + 0.2), Some(MicroDollars::new(300_000)));
    assert_eq!(MicroDollars::from_f64(0.0416), Some(MicroDollars::new(41_600)));
    for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e13] {
        assert_eq!(MicroDollars::from_f64(none), None, "{none}");
    }
}

#[test]
fn sums_saturate_instead_of_wrapping() {
    assert_eq!(MicroDollars::MAX + MicroDollars::new(1), MicroDollars::MAX);
    assert_eq!(MicroDollars::MAX.saturating_mul(2), MicroDollars::MAX);
    let total: MicroDollars = [price("0.1"), price("0.2"), price("0.3")].iter().sum();
    assert_eq!(total, price("0.6"));
}

proptest! {
    #[test]
    fn parsing_what_was_printed_gives_the_same_price(micro in (i64::MIN + 1)..=i64::MAX) {
        let price = MicroDollars::new(micro);
        prop_assert_eq!(price.to_string().parse(), Ok(price));
    }

    #[test]
    fn order_of_text_prices_is_numeric(a in 0_u32.., b in 0_u32..) {
        let (x, y) = (price(&format!("{a}.5")), price(&format!("{b}.5")));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
    }
}

use super::super::expiry::*;
use super::at;

// Cases: EXP-3, EXP-5, EXP-6, EXP-8
#[test]
fn a_claim_expires_at_its_age_and_says_when() {
    let hour = "1h".parse().unwrap();
    assert_eq!(expiry(at(0), &hour, at(3599)), Expiry::At(at(3600)));
    assert_eq!(expiry(at(0), &hour, at(3600)), Expiry::Now);
    assert_eq!(expiry(at(0), &"Never".parse().unwrap(), at(1_000_000_000)), Expiry::Never);
    assert_eq!(expiry(at(0), &"0s".parse().unwrap(), at(0)), Expiry::Now);
    assert!(matches!(expiry(at(0), &"2562047h".parse().unwrap(), at(0)), Expiry::At(_)), "no overflow");
}

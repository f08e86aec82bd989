mod consolidatable;
mod drift;
mod expiry;
mod repair;

use jiff::Timestamp;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

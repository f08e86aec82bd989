//! One trace across services, as Jaeger shows it.

use integration::Test;

pub(crate) fn tests() -> Vec<Test> {
    Vec::new()
}

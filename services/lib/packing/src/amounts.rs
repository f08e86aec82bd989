//! Amounts of resources: one integer per resource, in the caller's units.

/// `request <= room` in every resource.
#[inline]
pub fn fits(request: &[i64], room: &[i64]) -> bool {
    request.iter().zip(room).all(|(want, have)| want <= have)
}

/// How many times `request` goes into `room`; zero if any amount of `room` is negative.
#[inline]
pub fn times(request: &[i64], room: &[i64]) -> u32 {
    let mut least = i64::from(u32::MAX);
    for (&want, &have) in request.iter().zip(room) {
        if have < 0 {
            return 0;
        }
        if want > 0 {
            least = least.min(have / want);
        }
    }
    u32::try_from(least).unwrap_or(u32::MAX)
}

//! The process around [`pricing_cache`].

runtime::process!(PricingCache, pricing_cache::start);

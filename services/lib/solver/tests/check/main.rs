//! The checker catches every kind of broken plan: plans made by hand, each with one mistake, beside the same plan without it.

#[path = "../fixture/mod.rs"]
mod fixture;

mod accounting;
mod by_hand;
mod claims;
mod nodes;
mod parts;
mod pods;
mod prices;
mod topology;

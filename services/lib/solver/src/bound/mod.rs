//! Lower bounds on the cost of any plan, and the linear programme behind them.

pub(crate) mod simplex;

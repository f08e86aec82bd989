//! gRPC between the services: one server stack, one caller, and the trust between them.
//!
//! ```text
//!  caller                                            callee
//!  Peers ── watches ConfigMap karpenter-<callee>-trust ◀── trust: own certificate and address
//!    │ pick a replica (any, named, leader)             │
//!  Caller: token, trace, request id, deadline ─ TLS ─▶ stack: span, metrics, guard, limit, deadline ─▶ handler
//!           pin: exactly the published certificate       guard: TokenReview, access table, grants
//! ```

mod access;
mod auth;
mod caller;
mod connection;
mod deadline;
mod discovery;
pub mod errors;
mod guard;
mod listen;
mod methods;
mod observed;
mod pacing;
mod pin;
mod places;
mod published;
mod rate;
mod request_id;
mod server;
mod stack;
mod tls;
mod token;
mod trust;
mod turns;
mod watchers;

pub use access::{Access, Humans};
pub use auth::{Identity, User};
pub use caller::Caller;
pub use discovery::Peers;
pub use guard::GRANT_GROUP;
pub use request_id::{REQUEST_ID, current_request_id};
pub use server::GrpcServer;
pub use watchers::{Watchers, while_leading};

pub(crate) use caller::Outgoing;
pub(crate) use listen::accept;
pub(crate) use methods::Methods;
pub(crate) use tls::{Current, Subject, VALIDITY};
pub(crate) use token::TokenFile;
pub(crate) use trust::{Keyring, Publisher};

/// Who sent this request. [`Identity::Anonymous`] when authentication is off.
pub fn caller<T>(request: &tonic::Request<T>) -> Identity {
    request.extensions().get::<Identity>().cloned().unwrap_or(Identity::Anonymous)
}

#[cfg(test)]
mod tests;

//! Profiles of the running process in pprof's format, at the paths of Go's pprof server, so that
//! `go tool pprof http://host:8080/debug/pprof/heap` works. CPU is sampled only while a CPU profile is taken; the heap is
//! sampled from the start, about once per 512 KiB allocated.

mod cpu;
mod encode;
mod heap;
mod mapped;
#[cfg(test)]
mod tests;

use std::{path::Path, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::admin::Admin;

const DEFAULT_SECONDS: u64 = 30;
const LONGEST_SECONDS: u64 = 120;
const INDEX: &str = "\
/debug/pprof/profile?seconds=30  CPU time by function, sampled for 1 to 120 seconds; one at a time
/debug/pprof/heap                memory in use, by the function that allocated it
/debug/tasks                     threads, tasks and queue of the async runtime

Read them with: go tool pprof http://HOST:PORT/debug/pprof/heap
";
/// A tmpfs that every container has. Both profilers keep samples in a file, and the root of the image is read-only.
const SHARED_MEMORY: &str = "/dev/shm";

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("seconds={0:?} is not a whole number from 1 to {LONGEST_SECONDS}")]
    Seconds(String),
    #[error("a heap profile shows what is in use now: seconds is not supported here")]
    HeapOverTime,
    #[error("another CPU profile is being taken; there can be only one at a time")]
    Running,
    #[error("the process is stopping")]
    Stopping,
    #[error("this program was built without heap profiling (see .cargo/config.toml)")]
    NoHeap,
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Seconds(_) | Self::HeapOverTime => StatusCode::BAD_REQUEST,
            Self::Running => StatusCode::CONFLICT,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoHeap => StatusCode::NOT_IMPLEMENTED,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{self}\n")).into_response()
    }
}

/// Begins to sample the heap. Called once, when profiling is switched on and before the service allocates much.
pub(crate) async fn start() {
    if tempfile::tempfile().is_err() && tempfile::env::override_temp_dir(Path::new(SHARED_MEMORY)).is_err() {
        tracing::warn!("no directory for temporary files: profiles will fail");
    }
    heap::start().await;
}

pub(crate) fn routes() -> Router<Admin> {
    Router::new()
        .route("/debug/pprof/", get(|| async { INDEX }))
        .route("/debug/pprof/profile", get(cpu_profile))
        .route("/debug/pprof/heap", get(heap_profile))
}

async fn cpu_profile(State(admin): State<Admin>, uri: Uri) -> Result<Response, Error> {
    let duration = match parameter(&uri, "seconds") {
        Some(given) => parse_seconds(given)?,
        None => Duration::from_secs(DEFAULT_SECONDS),
    };
    // Dropped when the reader leaves: sampling ends with it.
    let sampling = cpu::Sampling::start()?;
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = admin.stop.cancelled() => return Err(Error::Stopping),
    }
    // Names of functions are read from the program file.
    let profile = tokio::task::spawn_blocking(move || sampling.profile()).await.map_err(Error::failed)??;
    Ok(attachment("profile.pb.gz", profile))
}

async fn heap_profile(uri: Uri) -> Result<Response, Error> {
    if parameter(&uri, "seconds").is_some() {
        return Err(Error::HeapOverTime);
    }
    Ok(attachment("heap.pb.gz", heap::profile().await?))
}

fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    uri.query()?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

fn parse_seconds(given: &str) -> Result<Duration, Error> {
    match given.parse() {
        Ok(seconds @ 1..=LONGEST_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::Seconds(given.to_owned())),
    }
}

fn attachment(name: &str, body: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, body).into_response()
}

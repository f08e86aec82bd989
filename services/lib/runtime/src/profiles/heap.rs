//! Memory in use, by the function that allocated it: the allocator's own samples.

use std::sync::Arc;

use jemalloc_pprof::PROF_CTL;

use super::Error;

pub(super) async fn start() {
    jemalloc_pprof::activate_jemalloc_profiling().await;
}

pub(super) async fn profile() -> Result<Vec<u8>, Error> {
    let control = PROF_CTL.as_ref().ok_or(Error::NoHeap)?;
    let mut control = Arc::clone(control).lock_owned().await;
    // Written to a file, read back, and names of functions looked up in the program file.
    let dumped = tokio::task::spawn_blocking(move || control.dump_pprof()).await;
    dumped.map_err(Error::failed)?.map_err(Error::failed)
}

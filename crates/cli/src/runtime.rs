//! The one thread on which everything asynchronous runs: an idle node costs next to nothing.

use std::future::Future;

use anyhow::Context;

/// Runs a future to its end. Work on other threads that still blocks is left behind.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

//! The runtime: one thread runs all asynchronous code, so an idle node costs next to nothing.

use std::future::Future;

use anyhow::Context;

/// Runs a future to its end. Does not wait for other threads that still block.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(future);
    runtime.shutdown_background();
    result
}

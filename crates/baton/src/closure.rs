//! Closures as handlers.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Effects, Handler, HandlerError, Message, Payload};

/// A handler from an async function or closure. It takes a [`Payload`] and returns the [`Effects`]
/// that the commit writes, or `()`.
///
/// ```
/// use baton::{Effects, Json, OwnedMessage, Rejected, handler};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     customer: String,
///     amount: i64,
/// }
///
/// let orders = handler(|Json(order): Json<Order>| async move {
///     if order.amount < 0 {
///         return Err(Rejected::new("a negative amount").into());
///     }
///     let mut effects = Effects::default();
///     effects.hincr_by("totals", order.customer, order.amount);
///     Ok(effects)
/// });
///
/// let letters = handler(|message: OwnedMessage| async move {
///     let text = std::str::from_utf8(&message.text)?;
///     deliver(&message.key().to_string(), text).await?;
///     Ok(())
/// });
/// # async fn deliver(_: &str, _: &str) -> std::io::Result<()> { Ok(()) }
/// # fn is_handler(_: impl baton::Handler) {}
/// # is_handler(orders);
/// # is_handler(letters);
/// ```
///
/// A closure gets a copy of the text. A type that implements [`Handler`] reads the text in place and
/// stages effects as it goes.
pub fn handler<P, F, Fut, R>(handle: F) -> impl Handler
where
    P: Payload,
    F: Fn(P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send,
    R: Into<Effects>,
{
    AsyncClosure {
        handle,
        takes: PhantomData,
    }
}

struct AsyncClosure<P, F> {
    handle: F,
    takes: PhantomData<fn(P)>,
}

impl<P, F, Fut, R> Handler for AsyncClosure<P, F>
where
    P: Payload,
    F: Fn(P) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, HandlerError>> + Send,
    R: Into<Effects>,
{
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        let payload = P::from_message(message)?;
        *effects = (self.handle)(payload).await?.into();
        Ok(())
    }
}

/// A handler from a function or closure that blocks its thread: it computes for long, reads files or
/// calls a library that waits. Each call runs on a thread of tokio's pool for blocking work, so the
/// node goes on to beat.
///
/// ```
/// use baton::{OwnedMessage, blocking};
///
/// let archive = blocking(|message: OwnedMessage| {
///     std::fs::write(format!("/archive/{}", message.key()), &message.text)?;
///     Ok(())
/// });
/// # fn is_handler(_: impl baton::Handler) {}
/// # is_handler(archive);
/// ```
///
/// The pool has 512 threads unless the runtime is built with another number; a higher
/// [`concurrency`](crate::NodeBuilder::concurrency) waits for them.
///
/// No thread can be cancelled. If the node stops before a call returns, the call runs on while
/// another worker handles the message again: give what it does outside Redis the message's
/// [key](Message::key), and a bound in time.
pub fn blocking<P, F, R>(handle: F) -> impl Handler
where
    P: Payload,
    F: Fn(P) -> Result<R, HandlerError> + Send + Sync + 'static,
    R: Into<Effects>,
{
    BlockingClosure {
        handle: Arc::new(handle),
        takes: PhantomData,
    }
}

struct BlockingClosure<P, F> {
    handle: Arc<F>,
    takes: PhantomData<fn(P)>,
}

impl<P, F, R> Handler for BlockingClosure<P, F>
where
    P: Payload,
    F: Fn(P) -> Result<R, HandlerError> + Send + Sync + 'static,
    R: Into<Effects>,
{
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        let payload = P::from_message(message)?;
        let handle = Arc::clone(&self.handle);
        let call = tokio::task::spawn_blocking(move || handle(payload).map(Into::into));
        *effects = match call.await {
            Ok(ended) => ended?,
            Err(error) => match error.try_into_panic() {
                // As if the closure had panicked here.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_cancelled) => return Err(HandlerError::unavailable("the runtime has ended")),
            },
        };
        Ok(())
    }
}

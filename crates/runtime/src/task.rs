//! A spawned task and its owner.
//!
//! Dropping a [`Task`] aborts it, so no task outlives its owner.

use tokio::task::JoinHandle;

/// A running task. Await it with [`Task::join`]; dropping it aborts the task.
#[derive(Debug)]
#[must_use = "dropping a task aborts it"]
pub struct Task<T> {
    name: &'static str,
    handle: Option<JoinHandle<T>>,
}

/// Why a task has no result.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task panicked.
    #[error("task '{name}' panicked: {message}")]
    Panicked {
        /// The task's name.
        name: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// The task was aborted before it finished.
    #[error("task '{name}' was cancelled")]
    Cancelled {
        /// The task's name.
        name: &'static str,
    },
}

impl<T> Task<T> {
    pub(crate) fn new(name: &'static str, handle: JoinHandle<T>) -> Self {
        Self { name, handle: Some(handle) }
    }

    /// Waits for the task's result. Cancelling this future aborts the task.
    pub async fn join(mut self) -> Result<T, TaskError> {
        self.ended().await
    }

    /// Waits for the task's result, which it returns once. Cancelling this future leaves the task
    /// running.
    pub async fn ended(&mut self) -> Result<T, TaskError> {
        let handle = self.handle.as_mut().expect("only `drop` takes the handle");
        let result = handle.await;
        let name = self.name;
        result.map_err(|error| match error.try_into_panic() {
            Ok(panic) => TaskError::Panicked { name, message: panic_message(&*panic) },
            Err(_) => TaskError::Cancelled { name },
        })
    }

    /// Whether the task has ended, by itself or by a panic.
    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Aborts the task at its next suspension point.
    pub fn abort(&self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.abort();
        }
    }
}

/// The text of a panic payload.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "unknown panic".to_owned()
    }
}

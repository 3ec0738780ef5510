//! Answers that wait for the device: written at the place of their request once they are available.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::command_context::{CommandContext, Held};
use crate::next::Next;
use crate::output::{Bytes, Later, Output};
use sandur_cache::{Answer, Pending};

/// Writes the answer about `key` now, or reserves its place and writes it once it is available. Returns
/// [`Next::Done`] in the first case and [`Next::Wait`] in the second. A command that only reads may
/// ignore the latter.
#[inline]
pub(crate) fn settle<T, F>(
    context: &CommandContext<'_>,
    output: &mut Output,
    key: &[u8],
    answer: Answer<T>,
    write: F,
) -> Next
where
    T: Send + 'static,
    F: FnOnce(&CommandContext<'_>, &[u8], T, &mut Bytes) + Send + 'static,
{
    match answer {
        Answer::Ready(answer) => {
            write(context, key, answer, output.tail());
            Next::Done
        }
        Answer::Pending(pending) => {
            let later = Written { pending, key: key.into(), write: Some(write), held: context.held() };
            output.push_later(Box::new(later));
            Next::Wait
        }
    }
}

/// Converts the value of an answer.
pub(crate) fn map<T, U>(answer: Answer<T>, to: impl FnOnce(T) -> U + Send + 'static) -> Answer<U>
where
    T: Send + 'static,
    U: Send + 'static,
{
    match answer {
        Answer::Ready(answer) => Answer::Ready(to(answer)),
        Answer::Pending(pending) => Answer::Pending(Pending::new(async move { to(pending.await) })),
    }
}

struct Written<T, F> {
    pending: Pending<T>,
    key: Box<[u8]>,
    write: Option<F>,
    held: Held,
}

impl<T, F> Later for Written<T, F>
where
    T: Send + 'static,
    F: FnOnce(&CommandContext<'_>, &[u8], T, &mut Bytes) + Send + 'static,
{
    fn poll(&mut self, context: &mut Context<'_>, out: &mut Bytes) -> Poll<()> {
        let answer = ready!(Pin::new(&mut self.pending).poll(context));
        if let Some(write) = self.write.take() {
            write(&self.held.context(), &self.key, answer, out);
        }
        Poll::Ready(())
    }
}

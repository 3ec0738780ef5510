//! Queries that are both long and deep, built from the language's own tables of forms.
//!
//! The input is a list of layers of three bytes: two choose a form, the third is the power of two of its
//! repetitions. Each layer is nested in the middle of the previous one. A query that takes long is
//! cancelled, as a server does at the deadline, and must then end.

use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use sandur_logql::{Form, forms};

use super::whole::{context, everything, on_a_small_stack, source};

/// Largest number of layers that are read from an input.
const LAYERS_MAX: usize = 6;
/// Longest query in bytes, which is the limit of a server.
const QUERY_BYTES_MAX: usize = 128 << 10;
/// Largest number of repetitions, as a power of two.
const POWER_MAX: u8 = 14;
/// Time after which a query is cancelled.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs the query that the layers describe.
pub fn run(input: &[u8]) {
    static FORMS: OnceLock<Vec<Form>> = OnceLock::new();
    let query = query(FORMS.get_or_init(forms), input);
    if query.is_empty() || query.len() > QUERY_BYTES_MAX {
        return;
    }
    let (context, lines) = (context(), source(&[b"n=1 m=2", br#"{"n":1,"a":{"a":[1]}}"#]));
    let (ended, end) = channel::<()>();
    let work = || {
        let _ended = ended;
        // An error is a valid outcome.
        let _ = everything(&lines, &context, &query);
    };
    on_a_small_stack(work, || {
        if end.recv_timeout(PATIENCE).is_err() {
            context.cancel();
        }
    });
}

fn query(forms: &[Form], input: &[u8]) -> String {
    let layers = input.chunks_exact(3).take(LAYERS_MAX);
    layers.rev().fold(String::new(), |middle, layer| {
        let form = &forms[usize::from(u16::from_le_bytes([layer[0], layer[1]])) % forms.len()];
        let [head, piece, own, closing, tail] = form.texts();
        let middle = if middle.is_empty() { own } else { &middle };
        let count = 1usize << (layer[2] % (POWER_MAX + 1));
        let length = (piece.len() + closing.len()).saturating_mul(count).saturating_add(middle.len());
        if length > QUERY_BYTES_MAX {
            return String::new();
        }
        [head, &piece.repeat(count), middle, &closing.repeat(count), tail].concat()
    })
}

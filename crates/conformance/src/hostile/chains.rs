//! Queries that are long and deep at once, out of the language's own tables.
//!
//! The input is a list of layers of three bytes: which form (two), and the power of two of its repetitions.
//! Each layer stands in the middle of the one before. What takes long is cancelled, as a server does it at
//! the deadline, and must end then.

use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use sandur_logql::{Form, forms};

use super::whole::{context, everything, on_a_small_stack, source};

/// Layers that are taken from an input.
const LAYERS_MAX: usize = 6;
/// Longest query: a server takes no longer ones.
const QUERY_BYTES_MAX: usize = 128 << 10;
/// Most repetitions: two to this.
const POWER_MAX: u8 = 14;
/// How long a query may take until it is cancelled.
const PATIENCE: Duration = Duration::from_millis(500);

/// Takes layers.
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
        // A refusal is an answer.
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

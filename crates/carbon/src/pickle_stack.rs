//! The stack of a pickle: its values, and the tuples, lists and texts that they refer to.
//!
//! **Invariants.** A value has a few bytes, whatever it contains: large contents are in an arena, and a
//! list that contains itself is an index within its own items. A payload creates at most
//! [`PICKLE_VALUES_MAX`] values, counted when they are pushed, which bounds both memory and time.

use std::collections::HashMap;
use std::ops::Range;

/// The largest number of values that a pickle may create, including marks and copies.
pub const PICKLE_VALUES_MAX: usize = 1 << 18;

/// A value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Neither text, number, tuple nor list. Bytes are included.
    Other,
    /// The mark from which [`super::pickle`] collects values.
    Mark,
    Number(f64),
    /// A text within the payload.
    Text {
        start: u32,
        length: u32,
    },
    /// A decoded text, in [`Stack::texts`].
    Written {
        start: u32,
        length: u32,
    },
    /// A tuple, whose items are in [`Stack::slots`].
    Tuple {
        start: u32,
        length: u32,
    },
    /// A list of [`Stack::lists`], by index.
    List(u32),
}

/// Why a stack operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StackError {
    Underflow,
    Full,
    /// `APPEND` to a value that is not a list.
    NoList,
    /// `GET` of an entry that was not put.
    NoMemo,
}

#[derive(Default)]
pub(crate) struct Stack {
    values: Vec<Value>,
    pub(crate) slots: Vec<Value>,
    pub(crate) lists: Vec<Vec<Value>>,
    pub(crate) texts: Vec<u8>,
    memo: HashMap<u32, Value>,
    pushed: usize,
}

impl Stack {
    pub(crate) fn push(&mut self, value: Value) -> Result<(), StackError> {
        self.pushed += 1;
        if self.pushed > PICKLE_VALUES_MAX {
            return Err(StackError::Full);
        }
        self.values.push(value);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Result<Value, StackError> {
        self.values.pop().ok_or(StackError::Underflow)
    }

    pub(crate) fn top(&self) -> Result<Value, StackError> {
        self.values.last().copied().ok_or(StackError::Underflow)
    }

    /// Returns the range of values after the last mark.
    fn after_mark(&self) -> Result<Range<usize>, StackError> {
        let mark = self.values.iter().rposition(|value| matches!(value, Value::Mark));
        mark.map(|mark| mark + 1..self.values.len()).ok_or(StackError::Underflow)
    }

    pub(crate) fn pop_mark(&mut self) -> Result<(), StackError> {
        let items = self.after_mark()?;
        self.values.truncate(items.start - 1);
        Ok(())
    }

    /// Replaces the values after the mark by a tuple of them.
    pub(crate) fn tuple_of_mark(&mut self) -> Result<(), StackError> {
        let items = self.after_mark()?;
        let mark = items.start - 1;
        self.tuple(items)?;
        self.values.remove(mark);
        Ok(())
    }

    /// Replaces the last values by a tuple of them.
    pub(crate) fn tuple_of(&mut self, count: usize) -> Result<(), StackError> {
        let start = self.values.len().checked_sub(count).ok_or(StackError::Underflow)?;
        self.tuple(start..self.values.len())
    }

    fn tuple(&mut self, items: Range<usize>) -> Result<(), StackError> {
        let (start, length) = (self.slots.len() as u32, items.len() as u32);
        let beginning = items.start;
        self.slots.extend_from_slice(&self.values[items]);
        self.values.truncate(beginning);
        self.push(Value::Tuple { start, length })
    }

    /// Replaces the values after the mark by a list of them.
    pub(crate) fn list_of_mark(&mut self) -> Result<(), StackError> {
        let items = self.after_mark()?;
        let mark = items.start - 1;
        let list = self.values.split_off(items.start);
        self.values.truncate(mark);
        self.list(list)
    }

    pub(crate) fn list(&mut self, items: Vec<Value>) -> Result<(), StackError> {
        self.lists.push(items);
        self.push(Value::List(self.lists.len() as u32 - 1))
    }

    pub(crate) fn append(&mut self) -> Result<(), StackError> {
        let item = self.pop()?;
        self.top_list()?.push(item);
        Ok(())
    }

    pub(crate) fn append_after_mark(&mut self) -> Result<(), StackError> {
        let items = self.after_mark()?;
        let mark = items.start - 1;
        let items = self.values.split_off(items.start);
        self.values.truncate(mark);
        self.top_list()?.extend(items);
        Ok(())
    }

    fn top_list(&mut self) -> Result<&mut Vec<Value>, StackError> {
        let Value::List(number) = self.top()? else { return Err(StackError::NoList) };
        self.lists.get_mut(number as usize).ok_or(StackError::NoList)
    }

    pub(crate) fn put(&mut self, key: u32) -> Result<(), StackError> {
        let value = self.top()?;
        if self.memo.len() >= PICKLE_VALUES_MAX {
            return Err(StackError::Full);
        }
        self.memo.insert(key, value);
        Ok(())
    }

    pub(crate) fn memoize(&mut self) -> Result<(), StackError> {
        self.put(self.memo.len() as u32)
    }

    pub(crate) fn get(&mut self, key: u32) -> Result<(), StackError> {
        let value = *self.memo.get(&key).ok_or(StackError::NoMemo)?;
        self.push(value)
    }

    /// Returns the items of a tuple or list.
    pub(crate) fn items(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::Tuple { start, length } => self.slots.get(start as usize..(start + length) as usize),
            Value::List(number) => self.lists.get(number as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    /// Returns the bytes of a text.
    pub(crate) fn text<'a>(&'a self, payload: &'a [u8], value: Value) -> Option<&'a [u8]> {
        let within = |bytes: &'a [u8], start: u32, length: u32| {
            bytes.get(start as usize..start as usize + length as usize)
        };
        match value {
            Value::Text { start, length } => within(payload, start, length),
            Value::Written { start, length } => within(&self.texts, start, length),
            _ => None,
        }
    }
}

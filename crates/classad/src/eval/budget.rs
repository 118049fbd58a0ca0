//! What an evaluation may cost. Every kind of work is counted in steps, so that the steps bound the
//! time: a step is one expression, one item of a list, or so many bytes of a text that is read,
//! compared or made. Nothing here knows what the work is.

use super::{Evaluator, Exceeded};
use crate::expr::Binary;
use crate::limits::MAX_MADE_BYTES;
use crate::value::{Text, Value};

/// Bytes that are read, compared or copied in about the time of one step.
const BYTES_PER_STEP: usize = 64;

impl Evaluator<'_> {
    /// Steps that were taken, all kinds of work together.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts work. Whether there is room for more: what goes beyond makes the whole an error.
    pub(crate) fn spend(&mut self, steps: u64) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.most_steps {
            self.exceed(Exceeded::Steps);
        }
        self.exceeded.is_none()
    }

    /// Work for each of so many things.
    pub(crate) fn spend_each(&mut self, count: usize) -> bool {
        self.spend(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Work on the bytes of a text.
    pub(crate) fn touch(&mut self, bytes: usize) -> bool {
        self.spend_each(bytes / BYTES_PER_STEP)
    }

    /// What a function pays for a value it is given: it may look at all of it once.
    pub(crate) fn take_in(&mut self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.touch(text.len()),
            Value::List(list) => self.spend_each(list.items.len()),
            _ => true,
        }
    }

    /// A text that a function made, if there is room for it.
    pub(crate) fn made(&mut self, text: Vec<u8>) -> Value {
        if self.may_make(text.len()) { text.into() } else { Value::Error }
    }

    /// Asked before a text of this size is made.
    pub(crate) fn may_make(&mut self, bytes: usize) -> bool {
        self.made = self.made.saturating_add(bytes);
        if self.made > MAX_MADE_BYTES {
            self.exceed(Exceeded::Bytes);
        }
        self.touch(bytes)
    }

    /// A list of the parts that a function made of so many bytes.
    pub(crate) fn made_list(&mut self, bytes: usize, parts: Vec<Value>) -> Value {
        let is_room = self.may_make(bytes) && self.spend_each(parts.len());
        if is_room { Value::list(parts) } else { Value::Error }
    }

    /// A value as a text. What is no text yet is made one, and counts as that.
    pub(crate) fn text_of(&mut self, value: &Value) -> Result<Text, Value> {
        let text = crate::convert::to_text(value)?;
        let is_made = !matches!(value, Value::String(_));
        if is_made && !self.may_make(text.len()) { Err(Value::Error) } else { Ok(text) }
    }

    /// Two values under an operator; comparing texts costs what the shorter one has.
    pub(crate) fn operate(&mut self, op: Binary, left: &Value, right: &Value) -> Value {
        if let (Value::String(left), Value::String(right)) = (left, right) {
            self.touch(left.len().min(right.len()));
        }
        super::binary(op, left, right)
    }
}

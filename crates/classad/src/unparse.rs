//! Expressions to text, as HTCondor prints them: on one line, over several, and as ads of one
//! attribute a line. What is printed reads back as the same.

use crate::ad::Ad;
use crate::convert::{general, scientific};
use crate::expr::{Expr, Reference};
use crate::name::Name;
use crate::times::{abs_time_text, rel_time_text};
use crate::value::Value;
use std::fmt::Write as _;

/// Names that are quoted where they stand alone, because they mean something else.
const RESERVED: [&str; 7] = ["error", "false", "is", "isnt", "parent", "true", "undefined"];

/// On one line.
pub fn unparse(expr: &Expr) -> String {
    Writer::new(Form::Line).expr_to_string(expr)
}

/// Lists and ads over several lines.
pub fn pretty(expr: &Expr) -> String {
    Writer::new(Form::Pretty).expr_to_string(expr)
}

/// For people: short reals, and `=?=` for `is`. Reads back as the same.
pub fn readable(expr: &Expr) -> String {
    Writer::new(Form::Readable).expr_to_string(expr)
}

pub fn readable_value(value: &Value) -> String {
    let mut writer = Writer::new(Form::Readable);
    writer.value(value);
    writer.text
}

pub fn unparse_value(value: &Value) -> String {
    let mut writer = Writer::new(Form::Line);
    writer.value(value);
    writer.text
}

pub fn unparse_ad(ad: &Ad) -> String {
    let mut writer = Writer::new(Form::Line);
    writer.ad(ad);
    writer.text
}

/// `Name = expression`, one a line, as `condor_status -long` prints.
pub fn unparse_old_ad(ad: &Ad) -> String {
    let mut writer = Writer::new(Form::Old);
    for (name, expr) in ad.iter() {
        writer.name(name);
        writer.text.push_str(" = ");
        writer.expr(expr);
        writer.text.push('\n');
    }
    writer.text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Line,
    Pretty,
    Old,
    Readable,
}

struct Writer {
    text: String,
    form: Form,
    indent: usize,
}

impl Writer {
    fn new(form: Form) -> Writer {
        Writer { text: String::new(), form, indent: 0 }
    }

    fn expr_to_string(mut self, expr: &Expr) -> String {
        self.expr(expr);
        self.text
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(value) => self.value(value),
            Expr::RelTimeLiteral(seconds) => self.value(&Value::RelTime(*seconds)),
            Expr::Reference(reference) => self.reference(reference),
            Expr::Unary(op, inner) => {
                self.text.push_str(op.text());
                self.expr(inner);
            }
            Expr::Chain(chain) => {
                self.expr(chain.first());
                for (op, right) in chain.rest() {
                    let is_old = matches!(self.form, Form::Old | Form::Readable);
                    self.text.push_str(if is_old { op.old_text() } else { op.text() });
                    self.expr(right);
                }
            }
            Expr::Ternary(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.expr(condition);
                self.text.push_str(" ? ");
                self.expr(then);
                self.text.push_str(" : ");
                self.expr(otherwise);
            }
            Expr::Elvis(parts) => {
                let [first, otherwise] = &**parts;
                self.expr(first);
                self.text.push_str(" ?: ");
                self.expr(otherwise);
            }
            Expr::Subscript(parts) => {
                let [of, index] = &**parts;
                self.expr(of);
                self.text.push('[');
                self.expr(index);
                self.text.push(']');
            }
            Expr::Parens(inner) => {
                self.text.push('(');
                self.expr(inner);
                self.text.push(')');
            }
            Expr::Call(call) => {
                self.text.push_str(&call.name.to_text());
                self.text.push('(');
                self.separated(&call.args, |_| {});
                self.text.push(')');
            }
            Expr::List(items) => self.list(items),
            Expr::Ad(ad) => self.ad(ad),
        }
    }

    fn separated(&mut self, items: &[Expr], mut before: impl FnMut(&mut Self)) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            before(self);
            self.expr(item);
        }
    }

    fn reference(&mut self, reference: &Reference) {
        if let Some(scope) = reference.scope() {
            self.expr(scope);
            // `1.a` would be read as a number that ends with a dot.
            if matches!(scope, Expr::Literal(Value::Integer(_))) {
                self.text.push(' ');
            }
        }
        if !matches!(reference, Reference::Alone(_)) {
            self.text.push('.');
        }
        self.name(reference.name());
    }

    fn name(&mut self, name: &Name) {
        let bytes = name.as_bytes();
        let starts = bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        let plain = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let is_bare = starts && plain && !RESERVED.iter().any(|word| name.is(word));
        if !is_bare {
            self.text.push('\'');
        }
        self.escaped(bytes, b'\'');
        if !is_bare {
            self.text.push('\'');
        }
    }

    fn escaped(&mut self, bytes: &[u8], quote: u8) {
        for byte in bytes {
            let escape = match byte {
                byte if *byte == quote => {
                    self.text.push('\\');
                    self.text.push(char::from(*byte));
                    continue;
                }
                7 => "\\a",
                8 => "\\b",
                12 => "\\f",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                11 => "\\v",
                b'\\' => "\\\\",
                b' '..=b'~' => {
                    self.text.push(char::from(*byte));
                    continue;
                }
                other => {
                    let _ = write!(self.text, "\\{other:03o}");
                    continue;
                }
            };
            self.text.push_str(escape);
        }
    }

    /// Ads of one attribute a line escape nothing but the quote itself.
    fn string(&mut self, bytes: &[u8]) {
        self.text.push('"');
        if self.form == Form::Old {
            let text = String::from_utf8_lossy(bytes);
            self.text.push_str(&text.replace('"', "\\\""));
        } else {
            self.escaped(bytes, b'"');
        }
        self.text.push('"');
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Undefined => self.text.push_str("undefined"),
            Value::Error => self.text.push_str("error"),
            Value::Boolean(is) => self.text.push_str(if *is { "true" } else { "false" }),
            Value::Integer(number) => {
                let _ = write!(self.text, "{number}");
            }
            Value::Real(number) => self.real(*number),
            Value::String(text) => self.string(text),
            Value::AbsTime { seconds, offset } => {
                let text = abs_time_text(*seconds, *offset);
                let _ = write!(self.text, "absTime(\"{text}\")");
            }
            Value::RelTime(seconds) => {
                let text = rel_time_text(*seconds);
                let _ = write!(self.text, "relTime(\"{text}\")");
            }
            Value::List(list) => self.list(&list.items),
            Value::Ad(scope) => self.ad(scope.ad()),
        }
    }

    fn real(&mut self, number: f64) {
        let text = if number == 0.0 {
            if number.is_sign_negative() { "-0.0".into() } else { "0.0".into() }
        } else if number.is_nan() {
            "real(\"NaN\")".into()
        } else if number.is_infinite() {
            if number > 0.0 { "real(\"INF\")".into() } else { "real(\"-INF\")".into() }
        } else if matches!(self.form, Form::Old | Form::Readable) {
            let text = general(number, 16, 'E');
            if text.contains(['.', 'E']) { text } else { text + ".0" }
        } else {
            scientific(number)
        };
        self.text.push_str(&text);
    }

    fn list(&mut self, items: &[Expr]) {
        const INDENT: usize = 3;
        if self.form != Form::Pretty {
            self.text.push_str("{ ");
            self.separated(items, |_| {});
            self.text.push_str(" }");
            return;
        }
        self.open('{', INDENT);
        self.separated(items, Writer::new_line);
        self.close('}', INDENT);
    }

    fn ad(&mut self, ad: &Ad) {
        const INDENT: usize = 4;
        let is_pretty = self.form == Form::Pretty;
        if is_pretty {
            self.open('[', INDENT);
        } else {
            self.text.push_str("[ ");
        }
        for (at, (name, expr)) in ad.iter().enumerate() {
            if at > 0 {
                self.text.push_str("; ");
            }
            if is_pretty {
                self.new_line();
            }
            self.name(name);
            self.text.push_str(" = ");
            self.expr(expr);
        }
        if is_pretty {
            self.close(']', INDENT);
        } else {
            self.text.push_str(" ]");
        }
    }

    fn new_line(&mut self) {
        self.text.push('\n');
        let indent = self.indent;
        let _ = write!(self.text, "{:indent$}", "");
    }

    fn open(&mut self, bracket: char, indent: usize) {
        self.indent += indent;
        self.new_line();
        self.text.push(bracket);
        self.indent += indent;
    }

    fn close(&mut self, bracket: char, indent: usize) {
        self.indent -= indent;
        self.new_line();
        self.text.push(bracket);
        self.indent -= indent;
    }
}

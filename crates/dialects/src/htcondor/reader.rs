//! Reading a submit file from its first line to its last: macros, conditions, included files, and
//! a `queue` statement with all its items.

use super::conditions::Ifs;
use super::error::{SourcePosition, SubmitError, Warning, Wrong};
use super::expand::{Chance, Scope, Unknown};
use super::limits::{
    MAX_INCLUDE_DEPTH, MAX_INCLUDES, MAX_LINES, MAX_MACROS, MAX_QUEUES, MAX_TASKS,
};
use super::lines::Lines;
use super::macros::Macros;
use super::queue::{self, Items, Matching, Queue};
use super::statement::{self, Statement};
use super::{Outside, Setting};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// One `queue` statement, with the macros as they were there.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) place: SourcePosition,
    pub(super) macros: Rc<Macros>,
    /// Tasks of each item.
    pub(super) count: u64,
    pub(super) variables: Vec<String>,
    /// The position in the list, and the text; without a list there is one empty item.
    pub(super) items: Vec<(usize, String)>,
}

pub(super) struct Reader<'a> {
    setting: &'a Setting,
    outside: &'a dyn Outside,
    pub(super) work: Cell<u64>,
    pub(super) chance: Chance,
    macros: Rc<Macros>,
    pub(super) queued: Vec<Queued>,
    pub(super) warnings: Vec<Warning>,
    tasks: u64,
    lines: usize,
    includes: usize,
    /// `queue` was seen, even if there was nothing to queue.
    seen_queue: bool,
    /// The first `queue` that had nothing, and why.
    empty: Option<(SourcePosition, String)>,
    pub(super) unknown: Unknown,
}

impl<'a> Reader<'a> {
    pub(super) fn new(setting: &'a Setting, outside: &'a dyn Outside) -> Self {
        Reader {
            setting,
            outside,
            work: Cell::new(0),
            chance: Chance::new(setting.seed),
            macros: Rc::default(),
            queued: Vec::new(),
            warnings: Vec::new(),
            tasks: 0,
            lines: 0,
            includes: 0,
            seen_queue: false,
            empty: None,
            unknown: Unknown::default(),
        }
    }

    pub(super) fn read(&mut self, text: &str) -> Result<(), SubmitError> {
        let file = self.setting.submit_file.clone();
        self.file(&file, text, 0)?;
        let place = SourcePosition { file, line: 0 };
        if !self.seen_queue {
            return Err(Wrong::NoQueue.at(&place));
        }
        match self.empty.take().filter(|_| self.tasks == 0) {
            Some((place, why)) => Err(Wrong::NoTasks(why).at(&place)),
            None => Ok(()),
        }
    }

    pub(super) fn scope(&self) -> Scope<'_> {
        Scope {
            macros: &self.macros,
            live: None,
            setting: self.setting,
            outside: self.outside,
            chance: &self.chance,
            work: &self.work,
            early: false,
            depth: 0,
            meter: None,
            asker: None,
            unknown: &self.unknown,
        }
    }

    fn file(&mut self, name: &str, text: &str, depth: usize) -> Result<(), SubmitError> {
        let mut lines = Lines::new(name, text);
        let mut ifs = Ifs::default();
        only_text(name, text)?;
        while let Some(line) = lines.next()? {
            self.lines += 1;
            let place = lines.place();
            if self.lines > MAX_LINES {
                return Err(Wrong::ManyLines.at(&place));
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // Lines that older versions must not see begin with a colon.
            let colon = line.strip_prefix(':');
            let hidden = colon.filter(|rest| ifs.is_inside() || rest.starts_with("if"));
            let line = hidden.unwrap_or(&line);
            if ifs.take(line, &self.scope()).map_err(|wrong| wrong.at(&place))? || !ifs.active() {
                continue;
            }
            let queues = self.statement(line, &mut lines, depth, &place)?;
            // As with HTCondor, which stops at a `queue` and begins anew behind it.
            if queues {
                if ifs.is_inside() {
                    let what = "an `if` has no `endif` before this `queue`, which ends it; write \
                                `endif` above it";
                    self.warn(&place, what.into());
                }
                ifs = Ifs::default();
            }
        }
        if ifs.is_inside() { Err(Wrong::NoEndIf.at(&lines.place())) } else { Ok(()) }
    }

    /// Whether it was a `queue`.
    fn statement(
        &mut self,
        line: &str,
        lines: &mut Lines<'_>,
        depth: usize,
        place: &SourcePosition,
    ) -> Result<bool, SubmitError> {
        match statement::read(line) {
            Statement::Set { name, value } => self.set(name, value, place)?,
            Statement::Append { name, separator, value } => {
                let text = self.appended(name, separator, value);
                self.set(name, &text, place)?;
            }
            Statement::Here { name, tag } => {
                let text = here_text(lines, tag, place)?;
                self.set(name, &text, place)?;
            }
            Statement::Attribute { name, value } => {
                self.store(&format!("MY.{name}"), value, place)?;
            }
            Statement::Include { options, name } => self.include(options, name, depth, place)?,
            Statement::Use { what } => return Err(Wrong::Use(what.into()).at(place)),
            Statement::Say { fatal, text } => {
                let said = self.scope().expand("error", text).map_err(|wrong| wrong.at(place))?;
                if fatal {
                    return Err(Wrong::Said(said).at(place));
                }
                self.warn(place, said);
            }
            Statement::Other => match queue::arguments(line) {
                Some(_) if depth > 0 => return Err(Wrong::QueueInInclude.at(place)),
                Some(arguments) => {
                    self.queue(arguments, lines, place)?;
                    return Ok(true);
                }
                None => {
                    let shown = line.chars().take(80).collect();
                    return Err(Wrong::NoStatement(shown).at(place));
                }
            },
        }
        Ok(false)
    }

    fn warn(&mut self, place: &SourcePosition, what: String) {
        self.warnings.push(Warning { place: place.clone(), what });
    }

    fn set(&mut self, name: &str, value: &str, place: &SourcePosition) -> Result<(), SubmitError> {
        let scope = self.scope();
        let named = scope.expand(name, name).map_err(|wrong| wrong.at(place))?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        if named.is_empty() || !named.bytes().all(letter) {
            return Err(Wrong::Name(named).at(place));
        }
        let value = scope.expand_self(&named, value).map_err(|wrong| wrong.at(place))?;
        self.store(&named, &value, place)
    }

    fn store(
        &mut self,
        name: &str,
        value: &str,
        place: &SourcePosition,
    ) -> Result<(), SubmitError> {
        if self.macros.len() >= MAX_MACROS && self.macros.get(name).is_none() {
            return Err(Wrong::ManyMacros.at(place));
        }
        // Those that a `queue` has kept stay as they were.
        Rc::make_mut(&mut self.macros).set(name, value, place.clone());
        Ok(())
    }

    fn appended(&self, name: &str, separator: &str, value: &str) -> String {
        let old = self.macros.get(name).map(|entry| entry.value.to_string());
        match old.filter(|old| !old.is_empty()) {
            None => value.to_string(),
            Some(old) => match separator.len() {
                0 => format!("{old} {value}"),
                1 => format!("{old}{separator}{value}"),
                _ => format!("{old} {separator} {value}"),
            },
        }
    }

    fn include(
        &mut self,
        options: &str,
        name: &str,
        depth: usize,
        place: &SourcePosition,
    ) -> Result<(), SubmitError> {
        let mut words = options.split_ascii_whitespace().peekable();
        let optional = words.next_if(|word| ["ifexist", "ifexists"].contains(word)).is_some();
        let word = words.next();
        let name = self.scope().expand("include", name).map_err(|wrong| wrong.at(place))?;
        if matches!(word, Some("command" | "output")) || name.contains('|') {
            return Err(Wrong::IncludeCommand.at(place));
        }
        if let Some(word) = word {
            return Err(Wrong::IncludeWord(word.into()).at(place));
        }
        self.includes += 1;
        if depth + 1 >= MAX_INCLUDE_DEPTH {
            return Err(Wrong::DeepInclude(name).at(place));
        }
        if self.includes > MAX_INCLUDES {
            return Err(Wrong::ManyIncludes.at(place));
        }
        let unreadable = |said| Wrong::Unreadable { name: name.clone(), said }.at(place);
        match self.outside.read(&name, &place.file).map_err(unreadable)? {
            Some(found) => self.file(&found.name, &found.text, depth + 1),
            None if optional => Ok(()),
            None => Err(unreadable("there is no such file".into())),
        }
    }

    fn queue(
        &mut self,
        arguments: &str,
        lines: &mut Lines<'_>,
        place: &SourcePosition,
    ) -> Result<(), SubmitError> {
        self.seen_queue = true;
        let setting = self.setting;
        for (name, value) in &setting.overrides {
            let place = SourcePosition { file: format!("--set {name}"), line: 0 };
            match name.strip_prefix('+') {
                Some(name) => self.store(&format!("MY.{name}"), value, &place)?,
                None => self.set(name, value, &place)?,
            }
        }
        let asking = Scope { asker: Some(place), ..self.scope() };
        let text = asking.expand("queue", arguments).map_err(|wrong| wrong.at(place))?;
        let Queue { count, variables, items, slice } =
            queue::parse(text.trim()).map_err(|wrong| wrong.at(place))?;
        let named = items != Items::None;
        let nothing = nothing_in(&items, count);
        let listed = self.items(items, lines, place)?;
        let size = listed.len();
        let items: Vec<(usize, String)> = if named {
            listed.into_iter().enumerate().filter(|(at, _)| slice.takes(*at, size)).collect()
        } else {
            vec![(0, String::new())]
        };
        self.tasks = self.tasks.saturating_add(count.saturating_mul(items.len() as u64));
        if self.tasks > MAX_TASKS {
            return Err(Wrong::ManyTasks(self.tasks).at(place));
        }
        if count == 0 || items.is_empty() {
            self.warn(place, format!("this `queue` is empty: {nothing}"));
            self.empty.get_or_insert_with(|| (place.clone(), nothing));
            return Ok(());
        }
        if self.queued.len() == MAX_QUEUES {
            return Err(Wrong::ManyQueues.at(place));
        }
        self.warn_empty(&variables, &items, place);
        let macros = self.macros.clone();
        self.queued.push(Queued { place: place.clone(), macros, count, variables, items });
        Ok(())
    }

    /// One warning for all of them: a table with an empty column has as many as it has lines.
    fn warn_empty(
        &mut self,
        variables: &[String],
        items: &[(usize, String)],
        place: &SourcePosition,
    ) {
        if variables.is_empty() {
            return;
        }
        let empty = |text: &str| queue::fields(text, variables.len()).iter().any(|f| f.is_empty());
        let mut found = items.iter().filter(|(_, text)| empty(text)).map(|(at, _)| at);
        if let Some(first) = found.next() {
            let more = found.count();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = variables.join(", ");
            self.warn(place, format!("item {first}{more} has no value for all of {names}"));
        }
    }

    fn items(
        &mut self,
        items: Items,
        lines: &mut Lines<'_>,
        place: &SourcePosition,
    ) -> Result<Vec<String>, SubmitError> {
        let limited = |listed: Vec<String>| match listed.len() as u64 {
            many if many > MAX_TASKS => Err(Wrong::ManyTasks(many).at(place)),
            _ => Ok(listed),
        };
        match items {
            Items::None => Ok(Vec::new()),
            Items::Listed(listed) => limited(listed),
            Items::Following { begun, words } => limited(following(lines, begun, words, place)?),
            Items::File(name) => {
                let unreadable = |said| Wrong::Unreadable { name: name.clone(), said }.at(place);
                let found = self.outside.read(&name, &place.file).map_err(unreadable)?;
                let found = found.ok_or_else(|| unreadable("there is no such file".into()))?;
                only_text(&found.name, &found.text)?;
                let mut of_file = Lines::new(&found.name, &found.text);
                let mut listed = Vec::new();
                while let Some(line) = of_file.next()? {
                    listed.push(line);
                }
                limited(listed)
            }
            Items::Matching { patterns, following: more, kind } => {
                let patterns =
                    if more { following(lines, patterns, true, place)? } else { patterns };
                limited(self.matching(&patterns, kind, place)?)
            }
        }
    }

    fn matching(
        &mut self,
        patterns: &[String],
        kind: Matching,
        place: &SourcePosition,
    ) -> Result<Vec<String>, SubmitError> {
        let mut listed = Vec::new();
        let mut seen = BTreeSet::new();
        for pattern in patterns {
            let unreadable = |said| Wrong::Unreadable { name: pattern.clone(), said }.at(place);
            let found = self.outside.matching(pattern, kind).map_err(unreadable)?;
            if found.is_empty() {
                self.warn(place, format!("nothing matches `{pattern}`"));
            }
            for name in found {
                if seen.insert(name.clone()) {
                    listed.push(name);
                } else {
                    self.warn(place, format!("`{name}` matches twice; it is taken once"));
                }
            }
        }
        Ok(listed)
    }
}

/// Markers of ours, and NUL, would be taken for something else.
#[expect(clippy::string_slice, reason = "the place is that of a whole character")]
fn only_text(name: &str, text: &str) -> Result<(), SubmitError> {
    let bad = |c: &char| super::is_marker(*c) || *c == '\0';
    let Some((at, c)) = text.char_indices().find(|(_, c)| bad(c)) else { return Ok(()) };
    let line = text[..at].matches('\n').count() + 1;
    Err(Wrong::Character(u32::from(c)).at(&SourcePosition { file: name.into(), line }))
}

/// Why a `queue` would have no tasks.
fn nothing_in(items: &Items, count: u64) -> String {
    match items {
        _ if count == 0 => "its count is 0".into(),
        Items::None | Items::Listed(_) | Items::Following { .. } => "its list has no items".into(),
        Items::File(name) => format!("`{name}` has no lines, or none that the slice takes"),
        Items::Matching { patterns, .. } if patterns.is_empty() => "it has no patterns".into(),
        Items::Matching { patterns, .. } => {
            format!("nothing matches `{}` from the current directory", patterns.join("`, `"))
        }
    }
}

/// The lines up to `@tag`, put together again.
fn here_text(
    lines: &mut Lines<'_>,
    tag: &str,
    place: &SourcePosition,
) -> Result<String, SubmitError> {
    let mut text = String::new();
    while let Some(line) = lines.next()? {
        if line.strip_prefix('@') == Some(tag) {
            return Ok(text);
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
    }
    Err(Wrong::NoHereEnd(tag.into()).at(place))
}

/// Items on lines of their own, up to `)`.
fn following(
    lines: &mut Lines<'_>,
    mut items: Vec<String>,
    words: bool,
    place: &SourcePosition,
) -> Result<Vec<String>, SubmitError> {
    while let Some(line) = lines.next()? {
        if line.starts_with(')') {
            return Ok(items);
        }
        if line.starts_with('#') {
            continue;
        }
        if words { items.extend(queue::words(&line)) } else { items.push(line) }
    }
    Err(Wrong::NoListEnd.at(place))
}

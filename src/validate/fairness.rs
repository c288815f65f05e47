//! What the hidden tests need that nobody could guess: names, literals and messages that only the fix introduces.
//!
//! An item is used by the added lines of the hidden tests (of their test functions, the fail-to-pass ones only),
//! introduced by the added lines of the program, and found nowhere at base, in program, tests or documentation (a function
//! or method: nowhere called, defined or read off something). What a test calls its own variables and functions is none.

mod wording;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use self::wording::{pieces, shared, without_escapes};
use super::change::{self, Change, Changed};
use crate::{
    git::Repo,
    lang::paths,
    record::{
        environment::Language,
        task::{FairnessItem, FairnessKind, NameRole},
    },
    syntax::{
        entities::{Entity, entities},
        vocabulary::{Literal, Part, Vocabulary, Word, vocabulary},
    },
};

/// Items kept; a change with more introduces a whole interface, of which these are the first.
const MAX_ITEMS: usize = 24;
/// Characters of a number, and of a text without blanks, below which both sides may hold it by chance.
const MIN_LITERAL: usize = 2;
/// Longest text of an item, bytes.
const MAX_TEXT: usize = 300;

/// Something that both the tests and the fix hold, and what of it must be missing at base.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    item: FairnessItem,
    /// Those parts of it not yet found at base.
    unseen: Vec<String>,
}

/// Returns the items of a change, sorted, and how many more there are.
///
/// # Errors
/// A base file cannot be read.
pub fn find(
    repo: &Repo,
    base: &str,
    change: &Change,
    fail_to_pass: &BTreeSet<String>,
) -> Result<(Vec<FairnessItem>, u32)> {
    let mut wanted = wanted(change, fail_to_pass);
    if !wanted.is_empty() {
        change::read_base(repo, base, &mut |text| {
            wanted.retain_mut(|wanted| !wanted.is_known(text));
            !wanted.is_empty()
        })?;
    }
    let n_left_out = wanted.len().saturating_sub(MAX_ITEMS);
    let items = wanted.into_iter().take(MAX_ITEMS).map(|wanted| wanted.item).collect();
    Ok((items, u32::try_from(n_left_out).unwrap_or(u32::MAX)))
}

impl Wanted {
    fn new(item: FairnessItem) -> Wanted {
        Wanted { unseen: vec![item.text.clone()], item }
    }

    /// Says whether nothing of it is new, given one more text of the base.
    fn is_known(&mut self, base: &str) -> bool {
        let is_callable = matches!(self.item.role, Some(NameRole::Function | NameRole::Method));
        let is_there = |part: &str| if is_callable { calls(base, part) } else { holds(base, part) };
        self.unseen.retain(|part| !is_there(part));
        self.unseen.is_empty() || is_there(&self.item.text)
    }
}

/// Whether a text holds another, a word only as a whole.
fn holds(text: &str, part: &str) -> bool {
    places(text, part).next().is_some()
}

/// Whether a text calls or defines a function of a name, or reads it off something; a variable or a word of prose that
/// is called so tells nobody of a function.
fn calls(text: &str, name: &str) -> bool {
    places(text, name).any(|at| text[at + name.len()..].starts_with('(') || text[..at].ends_with(['.', ':']))
}

/// Returns where a text holds another, a word only as a whole.
fn places<'t>(text: &'t str, part: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(part).map(|(at, _)| at).filter(move |&at| {
        let starts = !part.starts_with(is_word) || !text[..at].ends_with(is_word);
        let ends = !part.ends_with(is_word) || !text[at + part.len()..].starts_with(is_word);
        starts && ends
    })
}

/// Returns what the tests use and the fix introduces, sorted, each once.
fn wanted(change: &Change, fail_to_pass: &BTreeSet<String>) -> Vec<Wanted> {
    let introduced = Introduced::of(&change.source);
    let mut found: BTreeMap<(FairnessKind, String), Wanted> = BTreeMap::new();
    for test in &change.tests {
        let Some(words) = vocabulary(test.path.as_bytes(), &test.new) else { continue };
        let scope = Scope::of(test, &words, fail_to_pass);
        for wanted in scope.names(&words, &introduced).into_iter().chain(scope.texts(&words, &introduced)) {
            found.entry((wanted.item.kind, wanted.item.text.clone())).or_insert(wanted);
        }
    }
    let names: BTreeSet<String> =
        found.keys().filter(|(kind, _)| *kind == FairnessKind::Name).map(|(_, text)| text.clone()).collect();
    found.retain(|(kind, text), _| *kind == FairnessKind::Name || !names.contains(text));
    found.into_values().collect()
}

/// A name as the fix defines it.
#[derive(Clone, Debug)]
struct Definition {
    role: NameRole,
    owner: Option<String>,
    signature: Option<String>,
    doc: Option<String>,
}

/// What the added lines of the program introduce.
#[derive(Default)]
struct Introduced {
    names: BTreeMap<String, Vec<Definition>>,
    /// Read off something, which may be what a test hands in.
    reads: BTreeSet<String>,
    texts: Vec<Literal>,
    numbers: BTreeSet<String>,
}

impl Introduced {
    fn of(source: &[Changed]) -> Introduced {
        let mut introduced = Introduced::default();
        for change in source {
            let Some(words) = vocabulary(change.path.as_bytes(), &change.new) else { continue };
            let entities = entities(change.path.as_bytes(), &change.new);
            introduced.add(change, words, &entities);
        }
        introduced
    }

    fn add(&mut self, change: &Changed, words: Vocabulary, entities: &[Entity]) {
        let is_added = |line: u32| change.lines.added.contains(&line);
        if change.is_new {
            let definition = Definition { role: NameRole::Module, owner: None, signature: None, doc: None };
            self.names.entry(module_name(&change.path)).or_default().push(definition);
        }
        for word in words.words.into_iter().filter(|word| is_added(word.line)) {
            match role_of(word.part) {
                Some(role) => {
                    let definition = describe(&word, role, entities);
                    self.names.entry(word.text).or_default().push(definition);
                }
                None if word.part == Part::Member => drop(self.reads.insert(word.text)),
                None => {}
            }
        }
        let has_added_line = |literal: &Literal| (literal.line..=literal.last_line).any(is_added);
        for literal in words.texts.into_iter().filter(has_added_line) {
            if let [text] = literal.parts.as_slice()
                && is_name(text)
            {
                let definition = Definition { role: NameRole::Option, owner: None, signature: None, doc: None };
                self.names.entry(text.clone()).or_default().push(definition);
            }
            self.texts.push(literal);
        }
        self.numbers.extend(words.numbers.into_iter().filter(|number| is_added(number.line)).map(|number| number.text));
    }

    /// Returns the definition that a use most likely means.
    fn meant_by(&self, part: Part, name: &str) -> Option<&Definition> {
        let fits = |definition: &&Definition| match part {
            Part::Keyword | Part::Key | Part::Attribute => matches!(
                definition.role,
                NameRole::Parameter | NameRole::Attribute | NameRole::Option | NameRole::Constant
            ),
            Part::Method => matches!(definition.role, NameRole::Method | NameRole::Function),
            Part::Member => definition.role != NameRole::Parameter,
            Part::Free => matches!(
                definition.role,
                NameRole::Module | NameRole::Type | NameRole::Function | NameRole::Method | NameRole::Constant
            ),
            _ => false,
        };
        let is_given = matches!(part, Part::Keyword | Part::Key);
        let rank = |definition: &&Definition| {
            let is_private = definition.owner.as_deref().is_some_and(is_private);
            (is_given && definition.role != NameRole::Parameter, is_private, definition.role)
        };
        self.names.get(name)?.iter().filter(fits).min_by_key(rank)
    }
}

/// Returns what a definition is to those who use it; `None` for what is no definition, or seen by nobody outside.
fn role_of(part: Part) -> Option<NameRole> {
    match part {
        Part::Function => Some(NameRole::Function),
        Part::Type => Some(NameRole::Type),
        Part::Method => Some(NameRole::Method),
        Part::Module => Some(NameRole::Module),
        Part::Attribute | Part::OwnAttribute => Some(NameRole::Attribute),
        Part::Parameter => Some(NameRole::Parameter),
        Part::Constant => Some(NameRole::Constant),
        Part::Key => Some(NameRole::Option),
        Part::Local | Part::Member | Part::Keyword | Part::Free | Part::Assigned => None,
    }
}

fn describe(word: &Word, role: NameRole, entities: &[Entity]) -> Definition {
    let is_it = |entity: &&Entity| entity.own_name() == word.text && entity.holds(word.line);
    let entity = entities.iter().rev().find(is_it);
    let owner = Some(word.owner.clone()).filter(|owner| !owner.is_empty());
    let (signature, doc) = match role {
        NameRole::Function | NameRole::Method | NameRole::Type => {
            (entity.and_then(|entity| entity.signature.clone()), entity.and_then(|entity| entity.doc.clone()))
        }
        NameRole::Module | NameRole::Attribute | NameRole::Parameter | NameRole::Constant | NameRole::Option => {
            (None, None)
        }
    };
    Definition { role, owner, signature, doc }
}

/// Whether the last part of a dotted name is for the program's own use; Python's `__init__` is not.
fn is_private(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.starts_with(['_', '#']) && !last.ends_with("__")
}

/// Returns how a file is imported: by its own name, or by its directory's where it stands for that.
fn module_name(path: &str) -> String {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let directory = parts.next().unwrap_or(stem);
    if matches!(stem, "__init__" | "index" | "mod" | "lib") { directory } else { stem }.to_owned()
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_') && text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// What counts of one test file.
struct Scope<'a> {
    test: &'a Changed,
    lines: BTreeSet<u32>,
    /// Names of the test's own.
    own: BTreeSet<String>,
    /// Attributes that tests set on themselves.
    own_attributes: BTreeSet<String>,
}

impl<'a> Scope<'a> {
    fn of(test: &'a Changed, words: &Vocabulary, fail_to_pass: &BTreeSet<String>) -> Scope<'a> {
        let of_parts = |parts: &[Part]| -> BTreeSet<String> {
            words.words.iter().filter(|word| parts.contains(&word.part)).map(|word| word.text.clone()).collect()
        };
        Scope {
            test,
            lines: lines_that_count(test, fail_to_pass),
            own: of_parts(&[Part::Local, Part::Function, Part::Type, Part::Parameter, Part::Constant]),
            own_attributes: of_parts(&[Part::OwnAttribute]),
        }
    }

    fn names(&self, words: &Vocabulary, introduced: &Introduced) -> Vec<Wanted> {
        let mut found = Vec::new();
        for word in words.words.iter().filter(|word| self.lines.contains(&word.line)) {
            let is_own = match word.part {
                Part::Free => self.own.contains(&word.text),
                Part::Member => self.own_attributes.contains(&word.text),
                _ => false,
            };
            if is_own {
                continue;
            }
            let is_given = matches!(word.part, Part::Keyword | Part::Key | Part::Method | Part::Attribute);
            match introduced.meant_by(word.part, &word.text) {
                Some(definition) => found.push(self.name(&word.text, word.line, definition.clone())),
                None if is_given && introduced.reads.contains(&word.text) => {
                    let role = if word.part == Part::Method { NameRole::Method } else { NameRole::Option };
                    let definition = Definition { role, owner: None, signature: None, doc: None };
                    found.push(self.name(&word.text, word.line, definition));
                }
                None => {}
            }
        }
        found
    }

    fn name(&self, text: &str, line: u32, definition: Definition) -> Wanted {
        let Definition { role, owner, signature, doc } = definition;
        let item = self.item(FairnessKind::Name, text, line);
        Wanted::new(FairnessItem { role: Some(role), owner, signature, doc, ..item })
    }

    fn item(&self, kind: FairnessKind, text: &str, line: u32) -> FairnessItem {
        FairnessItem {
            kind,
            text: text.to_owned(),
            role: None,
            owner: None,
            signature: None,
            doc: None,
            test_path: self.test.path.clone(),
            test_line: line,
        }
    }

    /// Returns what numbers and strings of the tests are wanted; a string may also quote a name.
    fn texts(&self, words: &Vocabulary, introduced: &Introduced) -> Vec<Wanted> {
        let mut found = Vec::new();
        let numbers = words.numbers.iter().filter(|number| self.lines.contains(&number.line));
        for number in numbers.filter(|number| number.text.len() >= MIN_LITERAL) {
            if introduced.numbers.contains(&number.text) {
                found.push(Wanted::new(self.item(FairnessKind::Literal, &number.text, number.line)));
            }
        }
        let is_counted = |literal: &&Literal| self.lines.range(literal.line..=literal.last_line).next().is_some();
        for literal in words.texts.iter().filter(is_counted) {
            for piece in pieces(literal) {
                found.extend(self.text(&piece, literal.line, introduced));
            }
        }
        found
    }

    fn text(&self, piece: &str, line: u32, introduced: &Introduced) -> Option<Wanted> {
        if piece.len() > MAX_TEXT || piece.chars().count() < MIN_LITERAL || !piece.contains(char::is_alphanumeric) {
            return None;
        }
        let is_quoted_name = |definition: &&Definition| definition.role != NameRole::Option;
        if let Some(definition) = introduced.names.get(piece).and_then(|list| list.iter().find(is_quoted_name)) {
            return Some(self.name(piece, line, definition.clone()));
        }
        // JavaScript imports a module by its path.
        let stem = module_name(piece);
        let is_module = |definition: &&Definition| definition.role == NameRole::Module && piece.contains('/');
        if let Some(definition) = introduced.names.get(&stem).and_then(|list| list.iter().find(is_module)) {
            return Some(self.name(&stem, line, definition.clone()));
        }
        if !piece.contains(char::is_whitespace) {
            let is_it = |literal: &Literal| literal.parts.iter().any(|part| part.trim() == piece);
            let is_introduced = introduced.texts.iter().any(is_it);
            return is_introduced.then(|| Wanted::new(self.item(FairnessKind::Literal, piece, line)));
        }
        let variants = [piece.to_owned(), without_escapes(piece)];
        let matching = |text: &String| Some((text.clone(), introduced.texts.iter().find_map(|t| shared(t, text))?));
        let (text, unseen) = variants.iter().find_map(matching)?;
        Some(Wanted { unseen, item: self.item(FairnessKind::Message, &text, line) })
    }
}

/// Returns the added lines of a test file without those of test functions that are not fail-to-pass.
fn lines_that_count(test: &Changed, fail_to_pass: &BTreeSet<String>) -> BTreeSet<u32> {
    let added = test.lines.added.clone();
    if paths::language(test.path.as_bytes()) == Some(Language::Javascript) {
        return added;
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let ids: BTreeSet<&str> = fail_to_pass.iter().flat_map(|id| id.split(|c: char| !is_word(c))).collect();
    let entities = entities(test.path.as_bytes(), &test.new);
    let is_other = |line: &u32| {
        let function = entities.iter().find(|entity| entity.is_function && entity.holds(*line));
        function.is_some_and(|function| function.is_case && !ids.contains(function.own_name()))
    };
    added.into_iter().filter(|line| !is_other(line)).collect()
}

#[cfg(test)]
mod tests;

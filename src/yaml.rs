//! Owns reading YAML: text becomes nodes that know their file, line and key path, and typed readers with clear errors.
//!
//! Invariant: every error names the file, and the line and key wherever there is one; nothing is guessed or dropped
//! (unknown and duplicate keys are refused).
//! Must not know what any file means. This is the only file that names serde_yaml: a swap stays an hour's job.

mod node;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use node::{nearest, one_of, same};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Why a YAML file was refused; shown as `FILE:LINE: KEY: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// The file as the user named it.
    pub file: String,
    /// 1-based; none where the whole file is meant.
    pub line: Option<usize>,
    /// The key path, such as `sandbox.write[0]`; empty for the whole file.
    pub key: String,
    /// What is wrong: lower case, no period.
    pub message: String,
    /// What to do about it, a line each.
    pub hints: Vec<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Error {
    /// An error that concerns a whole file.
    pub fn of_file(file: &str, message: impl Into<String>) -> Error {
        Error { file: file.to_owned(), line: None, key: String::new(), message: message.into(), hints: Vec::new() }
    }

    /// The same error with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hints.push(hint.into());
        self
    }
}

/// A value as YAML text; for files that we write.
///
/// # Errors
/// When the value cannot be written as YAML.
pub fn to_string<T: serde::Serialize>(value: &T) -> std::result::Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}

/// Result of reading YAML.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A value with its place in the file.
#[derive(Clone)]
pub struct Node {
    /// The value, as YAML 1.2 types it.
    pub value: Value,
    /// Key path from the top of the file; empty for the top.
    pub path: String,
    /// A scalar as it is written (quotes resolved): `3.10` stays `3.10`; empty for lists and mappings.
    pub raw: String,
    place: u32,
    source: Arc<Source>,
}

/// A YAML value.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Mapping(Vec<Entry>),
}

/// One key and its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key as written.
    pub key: String,
    /// What it maps to.
    pub value: Node,
    place: u32,
}

struct Source {
    file: String,
    text: String,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}", self.path, self.value)
    }
}

/// Reads and parses a file; `shown` is how messages name it.
pub fn read(path: &Path, shown: &str) -> Result<Node> {
    let bytes = std::fs::read(path).map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file".to_owned(),
            std::io::ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => format!("cannot be read: {error}"),
        };
        Error::of_file(shown, message)
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Error { line: Some(line), ..Error::of_file(shown, "not UTF-8 text") }
    })?;
    parse(shown, &text)
}

/// Parses one YAML document; `file` is how messages name it. An empty document is an error.
pub fn parse(file: &str, text: &str) -> Result<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Arc::new(Source { file: file.to_owned(), text: text.to_owned() });
    let next = Cell::new(0);
    let seed = Build { source: &source, next: &next, stop_at: None, path: String::new() };
    let mut node = match seed.deserialize(serde_yaml::Deserializer::from_str(&source.text)) {
        Ok(node) => node,
        Err(error) => return Err(refusal(&source, &error)),
    };
    if matches!(node.value, Value::Null) {
        return Err(Error::of_file(file, "is empty"));
    }
    // A second walk keeps scalars as written; it can only fail where the first one did.
    Raw(&mut node)
        .deserialize(serde_yaml::Deserializer::from_str(&source.text))
        .map_err(|error| refusal(&source, &error))?;
    Ok(node)
}

fn refusal(source: &Source, error: &serde_yaml::Error) -> Error {
    let text = error.to_string();
    if text.starts_with("EOF while parsing") {
        return Error::of_file(&source.file, "is empty");
    }
    let location = error.location();
    // serde_yaml ends its messages with the place that the prefix shows already.
    let text = match text.find(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    };
    let (message, key) = match text.split_once(OURS) {
        Some((path, message)) => (message.to_owned(), path.trim_end_matches(": ").to_owned()),
        None if text.contains("more than one document") => ("more than one document (`---`) in the file".to_owned(), String::new()),
        None => (format!("not valid YAML: {text}"), String::new()),
    };
    // serde_yaml puts its own key path before our text: ours, carried behind the mark, is the one to show.
    let (message, key) = match message.split_once('\u{1}') {
        Some((path, message)) => (message.to_owned(), path.to_owned()),
        None => (message, key),
    };
    Error { file: source.file.clone(), line: location.map(|place| place.line()), key, message, hints: Vec::new() }
}

/// Marks messages that are ours inside those of serde_yaml.
const OURS: char = '\u{2}';

fn ours<E: de::Error>(path: &str, message: &str) -> E {
    E::custom(format!("{OURS}{path}\u{1}{message}"))
}

struct Build<'a> {
    source: &'a Arc<Source>,
    next: &'a Cell<u32>,
    /// The place (number in reading order) to stop at with an error: serde_yaml tells lines only through errors.
    stop_at: Option<u32>,
    path: String,
}

impl<'a> Build<'a> {
    fn take_place<E: de::Error>(&self) -> std::result::Result<u32, E> {
        let place = self.next.get();
        self.next.set(place + 1);
        if self.stop_at == Some(place) { Err(ours(&self.path, "here")) } else { Ok(place) }
    }

    fn child(&self, path: String) -> Build<'a> {
        Build { path, ..*self }
    }

    fn scalar<E: de::Error>(self, value: Value) -> std::result::Result<Node, E> {
        let place = self.take_place()?;
        Ok(Node { value, path: self.path, raw: String::new(), place, source: Arc::clone(self.source) })
    }
}

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> std::result::Result<Node, E> {
        self.scalar(Value::Null)
    }

    // A document of comments alone.
    fn visit_none<E: de::Error>(self) -> std::result::Result<Node, E> {
        self.scalar(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Node, E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> std::result::Result<Node, E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> std::result::Result<Node, E> {
        self.scalar(Value::Integer(value.into()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> std::result::Result<Node, E> {
        self.scalar(Value::Integer(value))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> std::result::Result<Node, E> {
        match i128::try_from(value) {
            Ok(value) => self.scalar(Value::Integer(value)),
            Err(_) => Err(ours(&self.path, "number too large")),
        }
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> std::result::Result<Node, E> {
        self.scalar(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<Node, E> {
        self.scalar(Value::Text(value.to_owned()))
    }

    fn visit_enum<A: de::EnumAccess<'de>>(self, _: A) -> std::result::Result<Node, A::Error> {
        Err(ours(&self.path, "tags (`!name`) are not accepted"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Node, A::Error> {
        let place = self.take_place()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.child(format!("{}[{}]", self.path, list.len())))? {
            list.push(item);
        }
        Ok(Node { value: Value::List(list), path: self.path, raw: String::new(), place, source: Arc::clone(self.source) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Node, A::Error> {
        let place = self.take_place()?;
        let mut list = Vec::new();
        let mut seen = BTreeSet::new();
        let mut failed: Option<A::Error> = None;
        while let Some((key, path, at)) = entries.next_key_seed(Key { build: &self, seen: &mut seen })? {
            let value = entries.next_value_seed(self.child(path));
            match value {
                Ok(value) => list.push(Entry { key, value, place: at }),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Node { value: Value::Mapping(list), path: self.path, raw: String::new(), place, source: Arc::clone(self.source) }),
        }
    }
}

struct Key<'a, 'b> {
    build: &'a Build<'b>,
    seen: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = (String, String, u32);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = (String, String, u32);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> std::result::Result<Self::Value, E> {
        let path = join(&self.build.path, key);
        let place = self.build.child(path.clone()).take_place()?;
        if self.seen.insert(key.to_owned()) { Ok((key.to_owned(), path, place)) } else { Err(ours(&path, "given twice")) }
    }
}

/// Walks a document along the nodes that were made of it and notes each scalar as written.
struct Raw<'a>(&'a mut Node);

impl<'de> DeserializeSeed<'de> for Raw<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        match self.0.value {
            Value::List(_) => deserializer.deserialize_seq(self),
            Value::Mapping(_) => deserializer.deserialize_map(self),
            _ => deserializer.deserialize_str(self),
        }
    }
}

impl<'de> Visitor<'de> for Raw<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same value again")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<(), E> {
        self.0.raw = text.to_owned();
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        if let Value::List(list) = &mut self.0.value {
            for node in list {
                items.next_element_seed(Raw(node))?;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<(), A::Error> {
        if let Value::Mapping(list) = &mut self.0.value {
            for entry in list {
                entries.next_key::<de::IgnoredAny>()?;
                entries.next_value_seed(Raw(&mut entry.value))?;
            }
        }
        Ok(())
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl Source {
    /// The 1-based line of a place; found by reading again up to it, since only errors ask.
    fn line(self: &Arc<Source>, place: u32) -> Option<usize> {
        let next = Cell::new(0);
        let seed = Build { source: self, next: &next, stop_at: Some(place), path: String::new() };
        match seed.deserialize(serde_yaml::Deserializer::from_str(&self.text)) {
            Ok(_) => None,
            Err(error) => error.location().map(|location| location.line()),
        }
    }
}

//! Owns the typed readers of a node: what was expected, what was found, which key was meant.
//!
//! Invariant: a reader either returns the value or an error that names file, line, key and what is accepted.
//! Must not parse: `yaml.rs` does.

use super::{Entry, Error, Node, Result, Value, join};

impl Node {
    /// The file as messages name it.
    pub fn file(&self) -> &str {
        &self.source.file
    }

    /// The 1-based line that the value starts on.
    pub fn line(&self) -> usize {
        self.source.line(self.place).unwrap_or(1)
    }

    /// An error at this value.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error {
            file: self.source.file.clone(),
            line: Some(self.line()),
            key: self.path.clone(),
            message: message.into(),
            hints: Vec::new(),
        }
    }

    /// The error for a value of the wrong type or range: `expected WHAT, found ...`.
    pub fn expected(&self, what: &str) -> Error {
        self.error(format!("expected {what}, found {}", self.found()))
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The text of a string; other scalars are refused.
    pub fn text(&self) -> Result<&str> {
        match &self.value {
            Value::Text(text) => Ok(text),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                Err(self.expected("a string").hint(format!("put it in quotes: \"{}\"", self.raw)))
            }
            _ => Err(self.expected("a string")),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Result<bool> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number between `least` and `most`.
    pub fn integer(&self, least: i128, most: i128) -> Result<i128> {
        match self.value {
            Value::Integer(value) if (least..=most).contains(&value) => Ok(value),
            _ => Err(self.expected(&range(least, most))),
        }
    }

    /// The items of a list.
    pub fn list(&self) -> Result<&[Node]> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.expected("a list")),
        }
    }

    /// The entries of a mapping with free keys, in the order of the file.
    pub fn entries(&self) -> Result<&[Entry]> {
        match &self.value {
            Value::Mapping(entries) => Ok(entries),
            _ => Err(self.expected("a mapping")),
        }
    }

    /// The entries of a mapping whose keys must be among `accepted`.
    pub fn mapping(&self, accepted: &[&str]) -> Result<&[Entry]> {
        let entries = self.entries()?;
        match entries.iter().find(|entry| !accepted.contains(&entry.key.as_str())) {
            Some(entry) => Err(self.unknown_key(entry, accepted)),
            None => Ok(entries),
        }
    }

    /// The value under a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The value under a key that must be there.
    pub fn required(&self, key: &str) -> Result<&Node> {
        self.get(key).ok_or_else(|| Error {
            file: self.source.file.clone(),
            line: (!self.path.is_empty()).then(|| self.line()),
            key: join(&self.path, key),
            message: "missing; it is required".to_owned(),
            hints: Vec::new(),
        })
    }

    /// The position of the text among `accepted`.
    pub fn choice(&self, accepted: &[&str]) -> Result<usize> {
        let Value::Text(text) = &self.value else { return Err(self.expected(&one_of(accepted))) };
        match accepted.iter().position(|choice| choice == text) {
            Some(position) => Ok(position),
            None => {
                let error = self.expected(&one_of(accepted));
                match nearest(text, accepted) {
                    Some(near) => Err(error.hint(format!("did you mean `{near}`?"))),
                    None => Err(error),
                }
            }
        }
    }

    /// The value in few words: the scalar itself, or what it is.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::List(_) | Value::Mapping(_) => "this value".to_owned(),
            Value::Null => "null".to_owned(),
            _ => format!("`{}`", self.raw),
        }
    }

    /// What the value is, for messages.
    pub fn found(&self) -> String {
        match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(_) | Value::Float(_) => format!("the number {}", self.raw),
            Value::Text(text) if text.chars().count() > 60 => format!("\"{}...\"", text.chars().take(57).collect::<String>()),
            Value::Text(text) => format!("{text:?}"),
            Value::List(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }

    fn unknown_key(&self, entry: &Entry, accepted: &[&str]) -> Error {
        let mut message = "unknown key".to_owned();
        if let Some(near) = nearest(&entry.key, accepted) {
            message = format!("unknown key; did you mean `{near}`?");
        }
        Error {
            file: self.source.file.clone(),
            line: self.source.line(entry.place),
            key: join(&self.path, &entry.key),
            message,
            hints: vec![format!("accepted: {}", accepted.join(", "))],
        }
    }
}

/// The accepted word that is most like `word`, if one is like it at all.
pub fn nearest<'a>(word: &str, accepted: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let mut best: Option<(f64, &str)> = None;
    for candidate in accepted {
        let score = strsim::jaro_winkler(&plain(word), &plain(candidate));
        if score > best.map_or(0.75, |(best, _)| best) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `a, b or c`.
pub fn one_of(accepted: &[&str]) -> String {
    match accepted {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn range(least: i128, most: i128) -> String {
    if most >= i128::from(i64::MAX) { format!("a whole number, {least} or more") } else { format!("a whole number from {least} to {most}") }
}

/// Whether two values are equal, wherever they stand; the order of keys does not count.
pub fn same(left: &Node, right: &Node) -> bool {
    match (&left.value, &right.value) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Integer(left), Value::Integer(right)) => left == right,
        (Value::Float(_), Value::Float(_)) => left.raw == right.raw,
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Mapping(entries), Value::Mapping(others)) => {
            entries.len() == others.len()
                && entries.iter().all(|entry| right.get(&entry.key).is_some_and(|other| same(&entry.value, other)))
        }
        _ => false,
    }
}

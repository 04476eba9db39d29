//! Owns the entries of configuration files: found, and taken out of the text.
//!
//! Invariant: what stays is byte for byte what it was, except in JSON, which is written anew; a file that is not understood
//! has no entries.
//! It reads no file.

use std::ops::Range;

use serde_json::Value;

/// Entries of one configuration file.
#[derive(Clone, Debug)]
pub(super) struct Config {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Top-level keys and those one level below, each as a pointer.
    Json(Vec<Vec<String>>),
    /// Lines of each top-level entry.
    Lines(Vec<(String, Range<usize>)>),
}

impl Config {
    /// The entries of a file, by its name; `None` where it is no configuration file.
    pub(super) fn parse(name: &str, text: &str) -> Option<Self> {
        let extension = name.rsplit('.').next().unwrap_or_default();
        let kind = match extension {
            "json" => {
                let value: Value = serde_json::from_str(text).ok()?;
                Kind::Json(json_keys(value.as_object()?))
            }
            "yaml" | "yml" => Kind::Lines(line_entries(text, ':')),
            "toml" | "ini" | "cfg" => Kind::Lines(line_entries(text, '=')),
            _ => return None,
        };
        Some(Self { text: text.to_owned(), kind })
    }

    /// Names of the entries.
    pub(super) fn names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Json(keys) => keys.iter().map(|key| key.join(".")).collect(),
            Kind::Lines(entries) => entries.iter().map(|(name, _)| name.clone()).collect(),
        }
    }

    /// The text without the entries of these numbers.
    pub(super) fn without(&self, numbers: &[usize]) -> String {
        match &self.kind {
            Kind::Json(keys) => {
                let mut value: Value = serde_json::from_str(&self.text).unwrap_or_default();
                for key in numbers.iter().filter_map(|number| keys.get(*number)) {
                    let Some((last, above)) = key.split_last() else { continue };
                    let inner = above.iter().try_fold(&mut value, |at, part| at.get_mut(part));
                    if let Some(map) = inner.and_then(Value::as_object_mut) {
                        map.shift_remove(last);
                    }
                }
                serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
            }
            Kind::Lines(entries) => {
                let gone: Vec<&Range<usize>> =
                    numbers.iter().filter_map(|number| entries.get(*number)).map(|(_, lines)| lines).collect();
                let kept = |(at, line): (usize, &str)| {
                    (!gone.iter().any(|lines| lines.contains(&at))).then(|| line.to_owned())
                };
                self.text.split_inclusive('\n').enumerate().filter_map(kept).collect()
            }
        }
    }
}

fn json_keys(map: &serde_json::Map<String, Value>) -> Vec<Vec<String>> {
    let mut keys = Vec::new();
    for (name, value) in map {
        match value.as_object() {
            Some(inner) if !inner.is_empty() => {
                keys.extend(inner.keys().map(|inner| vec![name.clone(), inner.clone()]));
            }
            _ => keys.push(vec![name.clone()]),
        }
    }
    keys
}

/// Entries that begin at the left margin; what is indented below belongs to them, and in sections each key is its own.
fn line_entries(text: &str, sign: char) -> Vec<(String, Range<usize>)> {
    let mut entries: Vec<(String, Range<usize>)> = Vec::new();
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let indented = line.starts_with([' ', '\t']);
        let trimmed = line.trim();
        if trimmed.starts_with('[') && !indented && sign == '=' {
            section = format!("{}.", trimmed.trim_matches(['[', ']']));
            continue;
        }
        let continues = indented || trimmed.starts_with(['-', ']', '}']);
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if continues {
            if let Some((_, lines)) = entries.last_mut() {
                lines.end = at + 1;
            }
        } else if let Some((name, _)) = line.split_once(sign) {
            entries.push((format!("{section}{}", name.trim()), at..at + 1));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_out_and_the_rest_stays() {
        let yaml = "# all\nlr: 0.1\nlayers:\n  - 1\n  - 2\nseed: 3\n";
        let config = Config::parse("a.yaml", yaml).unwrap();
        assert_eq!(config.names(), ["lr", "layers", "seed"]);
        assert_eq!(config.without(&[1]), "# all\nlr: 0.1\nseed: 3\n");
        assert_eq!(config.without(&[]), yaml);
        let toml = "a = 1\n[train]\nlr = 0.1\nsteps = [\n  1,\n]\n";
        let config = Config::parse("a.toml", toml).unwrap();
        assert_eq!(config.names(), ["a", "train.lr", "train.steps"]);
        assert_eq!(config.without(&[2]), "a = 1\n[train]\nlr = 0.1\n");
        let config = Config::parse("a.json", r#"{"a": 1, "b": {"c": 2, "d": 3}}"#).unwrap();
        assert_eq!(config.names(), ["a", "b.c", "b.d"]);
        assert_eq!(config.without(&[1]), "{\n  \"a\": 1,\n  \"b\": {\n    \"d\": 3\n  }\n}\n");
    }
}

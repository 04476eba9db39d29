//! Owns the table of keys of `crash.yaml`: names, what each accepts, defaults and words.
//!
//! Invariant: this one table drives reading, defaults, the JSON schema, the commented template and `docs/crash-yaml.md`;
//! they cannot disagree.
//! Must not look at files or turn values into a `Case`: `read` does.

use serde_json::{Map, Value as Json, json};

use super::quantity::{self, parse_duration, parse_size};
use crate::yaml::{self, Error, Node, Value};

/// One key of `crash.yaml`.
#[derive(Debug)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// The default, as YAML; none: the key is required (its parent given).
    pub default: Option<&'static str>,
    /// The only values that this version supports, as YAML; none: all that are valid.
    pub supported: Option<&'static [&'static str]>,
    /// An example, as YAML.
    pub example: &'static str,
    /// What it says, in one line.
    pub doc: &'static str,
}

/// What a key accepts.
#[derive(Debug)]
pub enum Kind {
    /// A string that is not empty.
    Text,
    /// A file or folder.
    Path,
    /// A glob pattern or path.
    Pattern,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
    /// A whole number, bounds included.
    Integer(u32, u32),
    /// `120s`, `30m`.
    Duration,
    /// `16GiB`.
    Size,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of the same.
    List(&'static Kind),
    /// Names of environment variables to strings or numbers.
    Variables,
    /// A mapping with these keys.
    Mapping(&'static [Key]),
    /// The first that fits.
    Either(&'static [Kind]),
}

const MOST: u32 = i32::MAX as u32;

const fn key(name: &'static str, kind: Kind, default: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default: Some(default), supported: None, example, doc }
}

const fn later(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    supported: &'static [&'static str],
    doc: &'static str,
) -> Key {
    Key { name, kind, default: Some(default), supported: Some(supported), example: default, doc }
}

/// All keys, in the order of the documents.
pub const KEYS: &[Key] = &[
    Key {
        name: "command",
        kind: Kind::Text,
        default: None,
        supported: None,
        example: "python train.py --data data --epochs 3",
        doc: "the command that crashes, exactly as typed in a shell",
    },
    key(
        "workdir",
        Kind::Path,
        ".",
        ".",
        "where the command is typed, relative to this file; the project is this folder",
    ),
    key(
        "python",
        Kind::Either(&[Kind::Path, Kind::Mapping(PYTHON), Kind::Null]),
        "null",
        ".venv/bin/python",
        "the interpreter, relative to this file, or what to make one from; null: what the command names, \
         else the active virtual environment, else python3",
    ),
    key(
        "sources",
        Kind::Either(&[Kind::List(&Kind::Pattern), Kind::Null]),
        "null",
        "[\"**/*.py\"]",
        "files that may be cut, relative to workdir; null: the project files that the first run imported",
    ),
    key(
        "data",
        Kind::Either(&[Kind::List(&Kind::Pattern), Kind::Null]),
        "null",
        "[data/labels.csv, \"data/images/*.npy\"]",
        "files that may be shrunk, relative to workdir; null: the project files that the first run opened for reading",
    ),
    key(
        "keep",
        Kind::List(&Kind::Pattern),
        "[]",
        "[\"configs/**\"]",
        "files that are never changed, relative to workdir",
    ),
    key(
        "expect",
        Kind::Mapping(EXPECT),
        "{}",
        "{kernel: nll_loss_forward_reduce_cuda_kernel_2d}",
        "the failure; default: whatever the first run shows",
    ),
    key(
        "launch_blocking",
        Kind::Bool,
        "true",
        "true",
        "run with CUDA_LAUNCH_BLOCKING=1, unless that hides the failure",
    ),
    key(
        "seed",
        Kind::Either(&[Kind::Integer(0, u32::MAX), Kind::Null]),
        "0",
        "0",
        "the seed of random, numpy, torch and PYTHONHASHSEED, unless that hides the failure; null leaves seeding alone",
    ),
    key(
        "num_workers",
        Kind::Either(&[Kind::Integer(0, 0), Kind::Null]),
        "0",
        "0",
        "0 runs DataLoaders without workers, unless that hides the failure; null leaves them alone",
    ),
    key("env", Kind::Variables, "{}", "{CUBLAS_WORKSPACE_CONFIG: \":4096:8\"}", "environment variables of the program"),
    key(
        "device",
        Kind::OneOf(&["auto", "cuda", "emulated"]),
        "auto",
        "auto",
        "where CUDA code runs; auto: a GPU where there is one, else emulated",
    ),
    later("gpus", Kind::List(&Kind::Integer(0, 1023)), "[0]", &["[0]"], "the GPUs to use, by index"),
    key("jobs", Kind::Either(&[Kind::OneOf(&["auto"]), Kind::Integer(1, 1024)]), "auto", "4", "trials at once"),
    key(
        "timeout",
        Kind::Either(&[Kind::Duration, Kind::Null]),
        "null",
        "120s",
        "time for one run; null: from the first run",
    ),
    later(
        "sanitizer",
        Kind::OneOf(&["none", "memcheck", "racecheck", "initcheck", "synccheck"]),
        "none",
        &["none"],
        "run under this tool of compute-sanitizer",
    ),
    key("strategy", Kind::Text, "default", "quick", "the strategy, by name or by file relative to this one"),
    later(
        "screen",
        Kind::OneOf(&["auto", "none", "emulated"]),
        "auto",
        &["auto", "none"],
        "try candidates on the emulated device before the GPU",
    ),
    key("sandbox", Kind::Mapping(SANDBOX), "{}", "{network: false, write: []}", "what the program may reach"),
    key(
        "limits",
        Kind::Mapping(LIMITS),
        "{}",
        "{time: 30m, runs: 2000, memory: 16GiB}",
        "when to stop and keep the best",
    ),
    later("gpus_per_trial", Kind::Integer(1, 1024), "1", &["1"], "the GPUs that one run needs"),
    later(
        "cluster",
        Kind::Either(&[Kind::Text, Kind::Null]),
        "null",
        &["null"],
        "where trials run: auto, ray://host:port, host:port or slurm",
    ),
];

const PYTHON: &[Key] = &[
    key(
        "version",
        Kind::Either(&[Kind::Text, Kind::Null]),
        "null",
        "\"3.11\"",
        "the version of Python, in quotes; null: that of python3",
    ),
    Key {
        name: "requirements",
        kind: Kind::List(&Kind::Text),
        default: None,
        supported: None,
        example: "[torch==2.11.0, numpy]",
        doc: "packages as pip takes them; the environment is made once and cached",
    },
];

const EXPECT: &[Key] = &[
    key(
        "assertion",
        Kind::Either(&[Kind::Text, Kind::Null]),
        "null",
        "\"t >= 0 && t < n_classes\"",
        "the condition of the assert",
    ),
    key(
        "kernel",
        Kind::Either(&[Kind::Text, Kind::Null]),
        "null",
        "nll_loss_forward_reduce_cuda_kernel_2d",
        "the kernel that fails",
    ),
    key(
        "match",
        Kind::OneOf(&["strict", "normal", "loose"]),
        "normal",
        "normal",
        "how alike two failures must be to count as the same",
    ),
];

const SANDBOX: &[Key] = &[
    key("network", Kind::Bool, "false", "false", "whether the program may use the network"),
    key(
        "write",
        Kind::List(&Kind::Path),
        "[]",
        "[/scratch/cache]",
        "paths that it may really write to, relative to workdir",
    ),
];

const LIMITS: &[Key] = &[
    key("time", Kind::Either(&[Kind::Duration, Kind::Null]), "30m", "30m", "for the whole run; null: none"),
    key("runs", Kind::Either(&[Kind::Integer(1, MOST), Kind::Null]), "2000", "2000", "runs of the program; null: none"),
    key(
        "memory",
        Kind::Either(&[Kind::Size, Kind::Null]),
        "null",
        "16GiB",
        "host memory that one run may use; null: no limit",
    ),
];

impl Kind {
    /// What is accepted, in words.
    pub fn accepted(&self) -> String {
        match self {
            Kind::Text => "a string".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::Pattern => "a path or glob pattern".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Null => "null".to_owned(),
            Kind::Integer(least, most) if least == most => least.to_string(),
            Kind::Integer(least, most) if *most == MOST => format!("a whole number, {least} or more"),
            Kind::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Duration => quantity::DURATION.to_owned(),
            Kind::Size => quantity::SIZE.to_owned(),
            Kind::OneOf(words) => yaml::one_of(words),
            Kind::List(Kind::Text) => "a list of strings".to_owned(),
            Kind::List(Kind::Path) => "a list of paths".to_owned(),
            Kind::List(Kind::Pattern) => "a list of paths and glob patterns".to_owned(),
            Kind::List(_) => "a list of whole numbers".to_owned(),
            Kind::Variables => "a mapping of names to strings".to_owned(),
            Kind::Mapping(keys) => format!("a mapping with {}", names(keys).join(", ")),
            Kind::Either(kinds) => {
                let words: Vec<String> = kinds.iter().map(Kind::accepted).collect();
                yaml::one_of(&words.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }

    /// Checks a value, nested keys included.
    fn check(&self, node: &Node) -> Result<(), Error> {
        let refuse = || Err(node.expected(&self.accepted()));
        match (self, &node.value) {
            (Kind::Text | Kind::Path | Kind::Pattern, Value::Text(text)) if !text.trim().is_empty() => {
                if text.contains('\0') { refuse() } else { Ok(()) }
            }
            (Kind::Text | Kind::Path | Kind::Pattern, Value::Bool(_) | Value::Integer(_) | Value::Float(_)) => {
                Err(node.expected(&self.accepted()).hint(format!("put it in quotes: \"{}\"", node.raw)))
            }
            (Kind::Bool, Value::Bool(_)) | (Kind::Null, Value::Null) => Ok(()),
            (Kind::Integer(least, most), Value::Integer(value))
                if (i128::from(*least)..=i128::from(*most)).contains(value) =>
            {
                Ok(())
            }
            (Kind::Duration, Value::Text(_) | Value::Integer(_) | Value::Float(_)) => parse_duration(&node.raw)
                .map(drop)
                .map_err(|accepted| node.error(format!("{accepted}, found {}", node.found()))),
            (Kind::Size, Value::Text(_) | Value::Integer(_) | Value::Float(_)) => parse_size(&node.raw)
                .map(drop)
                .map_err(|accepted| node.error(format!("{accepted}, found {}", node.found()))),
            (Kind::OneOf(words), Value::Text(_)) => node.choice(words).map(drop),
            (Kind::List(kind), Value::List(items)) => items.iter().try_for_each(|item| kind.check(item)),
            (Kind::Variables, Value::Mapping(entries)) => entries.iter().try_for_each(|entry| {
                if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                    return Err(entry.value.error("not a name for an environment variable"));
                }
                match &entry.value.value {
                    Value::Text(text) if !text.contains('\0') => Ok(()),
                    Value::Bool(_) | Value::Integer(_) | Value::Float(_) => Ok(()),
                    _ => Err(entry.value.expected("a string").hint("an empty variable is \"\"")),
                }
            }),
            (Kind::Mapping(keys), Value::Mapping(_)) => check_keys(node, keys),
            (Kind::Either(kinds), _) => match kinds.iter().find(|kind| kind.has_shape_of(node)) {
                // Bounds and words are told together with the other ways.
                Some(kind @ (Kind::Integer(..) | Kind::OneOf(_) | Kind::Duration | Kind::Size)) => {
                    kind.check(node).or_else(|_| refuse())
                }
                Some(kind) => kind.check(node),
                None => refuse(),
            },
            _ => refuse(),
        }
    }

    fn has_shape_of(&self, node: &Node) -> bool {
        match &node.value {
            Value::Null => matches!(self, Kind::Null),
            Value::Bool(_) => matches!(self, Kind::Bool | Kind::Text | Kind::Path | Kind::Pattern),
            Value::Integer(_) if matches!(self, Kind::Integer(..)) => true,
            Value::Integer(_) | Value::Float(_) => {
                matches!(self, Kind::Text | Kind::Path | Kind::Pattern | Kind::Duration | Kind::Size)
            }
            Value::Text(_) => {
                matches!(self, Kind::Text | Kind::Path | Kind::Pattern | Kind::OneOf(_) | Kind::Duration | Kind::Size)
            }
            Value::List(_) => matches!(self, Kind::List(_)),
            Value::Mapping(_) => matches!(self, Kind::Variables | Kind::Mapping(_)),
        }
    }

    fn schema(&self) -> Json {
        match self {
            Kind::Text | Kind::Path | Kind::Pattern => json!({"type": "string", "minLength": 1}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Null => json!({"type": "null"}),
            Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Kind::Duration => {
                json!({"type": ["string", "number"], "pattern": r"^\s*([0-9.]+\s*(ms|s|sec|m|min|h|d)?\s*)+$"})
            }
            Kind::Size => json!({"type": "string", "pattern": r"^\s*[0-9.]+\s*(B|[KMGT]iB|[kKMGT]B|[kKMGT])\s*$"}),
            Kind::OneOf(words) => json!({"enum": words}),
            Kind::List(kind) => json!({"type": "array", "items": kind.schema()}),
            Kind::Variables => {
                json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})
            }
            Kind::Mapping(keys) => object(keys),
            Kind::Either(kinds) => json!({"anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>()}),
        }
    }
}

/// Checks a whole file: keys, types, values, and what this version supports.
pub fn check(top: &Node) -> Result<(), Error> {
    check_keys(top, KEYS)
}

fn check_keys(node: &Node, keys: &'static [Key]) -> Result<(), Error> {
    let entries = node.mapping(&names(keys))?;
    for entry in entries {
        let Some(key) = keys.iter().find(|key| key.name == entry.key) else { continue };
        key.kind.check(&entry.value)?;
        if let Some(supported) = key.supported
            && !supported.iter().any(|text| yaml::same(&entry.value, &parsed(text)))
        {
            let message = format!("{} is not supported in this version", entry.value.shown());
            return Err(entry.value.error(message).hint(format!("supported: {}", yaml::one_of(supported))));
        }
    }
    for key in keys.iter().filter(|key| key.default.is_none()) {
        node.required(key.name)?;
    }
    Ok(())
}

/// The value of a key, or its default; `path` is the chain of keys, such as `["limits", "time"]`.
pub fn value(top: &Node, path: &[&str]) -> Node {
    let mut node = Some(top);
    let mut keys = KEYS;
    let mut default = None;
    for name in path {
        node = node.and_then(|node| node.get(name));
        let Some(key) = keys.iter().find(|key| key.name == *name) else { continue };
        default = key.default;
        keys = match &key.kind {
            Kind::Mapping(keys) => keys,
            Kind::Either(kinds) => kinds
                .iter()
                .find_map(|kind| if let Kind::Mapping(keys) = kind { Some(*keys) } else { None })
                .unwrap_or(&[]),
            _ => &[],
        };
    }
    match node {
        Some(node) => node.clone(),
        None => parsed(default.unwrap_or("null")),
    }
}

/// A value of the table; a null one comes back as a null node, where a whole file would count as empty.
fn parsed(text: &'static str) -> Node {
    let list = yaml::parse("the table of keys", &format!("[{text}]"));
    let node = list.as_ref().ok().and_then(|list| list.list().ok()).and_then(<[Node]>::first);
    node.cloned().expect("the table of keys holds YAML: a test reads every value")
}

fn names(keys: &'static [Key]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// The JSON schema of `crash.yaml`.
pub fn json_schema() -> Json {
    let mut schema = object(KEYS);
    if let Some(map) = schema.as_object_mut() {
        map.shift_insert(0, "$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.shift_insert(1, "title".to_owned(), json!("crash.yaml"));
        map.shift_insert(
            2,
            "description".to_owned(),
            json!("A program that dies with a CUDA device-side assert, for reduce."),
        );
    }
    schema
}

fn object(keys: &'static [Key]) -> Json {
    let mut properties = Map::new();
    for key in keys {
        let mut schema = key.kind.schema();
        if let Some(map) = schema.as_object_mut() {
            map.insert("description".to_owned(), json!(key.doc));
            if let Some(default) = key.default {
                map.insert("default".to_owned(), to_json(&parsed(default)));
            }
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let required: Vec<&str> = keys.iter().filter(|key| key.default.is_none()).map(|key| key.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(value) => i64::try_from(*value).map_or(Json::Null, |value| json!(value)),
        Value::Float(value) => json!(value),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Mapping(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_table(keys: &'static [Key]) {
        for key in keys {
            let example = parsed(key.example);
            key.kind.check(&example).unwrap();
            if let Some(default) = key.default {
                key.kind.check(&parsed(default)).unwrap();
            }
            for text in key.supported.unwrap_or_default() {
                key.kind.check(&parsed(text)).unwrap();
            }
            assert!(
                !key.doc.ends_with('.') && key.doc.chars().next().unwrap().is_lowercase()
                    || key.doc.starts_with(char::is_numeric),
                "{}",
                key.name
            );
            if let Kind::Mapping(keys) = key.kind {
                check_table(keys);
            }
        }
    }

    #[test]
    fn defaults_and_examples_of_the_table_are_valid() {
        check_table(KEYS);
        check_table(PYTHON);
    }

    #[test]
    fn each_example_alone_makes_a_valid_file() {
        for key in KEYS {
            let text = format!("command: python x.py\n{}: {}\n", key.name, key.example);
            let text = if key.name == "command" { format!("command: {}\n", key.example) } else { text };
            check(&yaml::parse("crash.yaml", &text).unwrap()).unwrap();
        }
    }
}

//! Owns finding and replacing what must not leave the machine: tokens, keys, names, addresses, home folders.
//!
//! Invariant: what is found is replaced by a text of its own kind that keeps code and tables readable, and is listed without
//! its value; cleaning twice changes nothing.
//! Must not guess from names alone: a variable called `token` is no secret, a quoted key is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is known of the user's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Private {
    /// Name of the user.
    pub user: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// Home folder, absolute.
    pub home: Option<String>,
    /// Values of variables that hold secrets by their name.
    pub values: Vec<String>,
}

/// What was replaced in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replaced {
    /// File in the bundle.
    pub file: String,
    /// What kind of secret.
    pub kind: String,
    /// How often.
    pub count: usize,
}

/// Public formats of tokens and keys: kind, pattern; the first group, where there is one, is what is replaced.
const FORMATS: &[(&str, &str)] = &[
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\n]+-----END [A-Z ]*PRIVATE KEY-----"),
    ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b"),
    ("GitHub token", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,64}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,64}\b"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{20,200}"),
    ("OpenAI key", r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,200}"),
    ("AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("AWS secret key", r#"(?i)aws_?secret_?(?:access_?)?key["']?\s*[:=]\s*["']?([A-Za-z0-9/+=]{40})\b"#),
    ("Google API key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("Google OAuth token", r"\bya29\.[0-9A-Za-z_-]{20,300}"),
    ("Slack token", r"\bxox[abeoprs]-[0-9A-Za-z-]{10,250}"),
    ("Slack webhook", r"hooks\.slack\.com/services/([A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]+)"),
    ("Stripe key", r"\b[sr]k_(?:live|test)_[0-9A-Za-z]{16,247}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-AgE[A-Za-z0-9_-]{40,300}"),
    ("SendGrid key", r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    ("Twilio key", r"\bSK[0-9a-f]{32}\b"),
    ("Telegram token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("Azure storage key", r"AccountKey=([A-Za-z0-9+/=]{60,100})"),
    ("Databricks token", r"\bdapi[0-9a-f]{32}\b"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    ("Weights & Biases key", r#"(?i)wandb_?api_?key["']?\s*[:=]\s*["']?([0-9a-f]{40})\b"#),
    ("Replicate token", r"\br8_[A-Za-z0-9]{37}\b"),
    ("password in a URL", r"[a-z][a-z0-9+.-]*://[^\s:/@'\x22]{1,100}:([^\s/@'\x22]{3,100})@"),
    (
        "secret by name",
        r#"(?i)\b[a-z0-9_]*(?:api_?key|secret|passwd|password|access_?token|auth_?token)["']?\s*[:=]\s*["']([^\s"']{8,200})["']"#,
    ),
    (
        "secret by name",
        r"(?m)^(?:export )?[A-Z0-9_]*(?:API_KEY|SECRET|PASSWORD|TOKEN)[A-Z0-9_]*\s*[:=]\s*([A-Za-z0-9_/+=.-]{16,200})$",
    ),
    (
        "e-mail address",
        r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:com|org|net|edu|gov|mil|int|io|ai|dev|app|info|co|de|fr|uk|nl|ch|at|it|es|pl|se|no|fi|dk|eu|us|ca|jp|cn|in|kr|br|ru|au)\b",
    ),
    ("home folder", r"(?:/home/|/Users/|(?i:[a-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)))([A-Za-z0-9._-]+)"),
];

static PATTERNS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    FORMATS.iter().map(|(kind, pattern)| (*kind, Regex::new(pattern).expect("the pattern is fixed"))).collect()
});

/// Names that say nothing about a person.
const NOBODY: [&str; 10] =
    ["root", "user", "users", "admin", "ubuntu", "runner", "jovyan", "docker", "localhost", "home"];

/// Finds and replaces, and remembers what.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    private: Private,
    /// Secrets that only their surroundings in the program showed to be some, by kind.
    known: BTreeMap<String, &'static str>,
    found: BTreeMap<(String, &'static str), usize>,
}

impl Secrets {
    /// A cleaner that knows the user's machine.
    pub fn new(private: Private) -> Self {
        Self { private, ..Self::default() }
    }

    /// Remembers what only its surroundings show to be a secret: it is one in a table or a log as well.
    ///
    /// Only texts that are cleaned before the program is confirmed may teach: what is learned later would change it.
    pub fn learn(&mut self, text: &str) {
        for (kind, pattern) in PATTERNS.iter().filter(|(kind, _)| *kind != "home folder") {
            for part in pattern.captures_iter(text).filter_map(|found| found.get(1)) {
                let (value, code) = (part.as_str(), text[part.end()..].starts_with('('));
                if is_telling(value) && !is_stand_in(value) && !code {
                    self.known.insert(value.to_owned(), kind);
                }
            }
        }
    }

    /// The text of a file without secrets.
    pub fn clean(&mut self, file: &str, text: &str) -> String {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut clean = text.to_owned();
        for value in self.private.values.iter().filter(|value| value.len() >= 8) {
            let count = clean.matches(value.as_str()).count();
            if count > 0 {
                clean = clean.replace(value.as_str(), &stand_in("secret variable", value));
                *counts.entry("secret variable").or_default() += count;
            }
        }
        for (value, kind) in &self.known {
            let count = clean.matches(value.as_str()).count();
            if count > 0 {
                clean = clean.replace(value.as_str(), &stand_in(kind, value));
                *counts.entry(kind).or_default() += count;
            }
        }
        for (kind, pattern) in PATTERNS.iter() {
            let found = pattern.captures_iter(&clean).filter_map(|found| found.get(1).or(found.get(0)));
            let places: Vec<_> = found.map(|part| part.range()).collect();
            // From the end, so that the places stay right.
            for place in places.into_iter().rev() {
                let old = clean[place.clone()].to_owned();
                let code = clean[place.end..].starts_with('(');
                let new = stand_in(kind, &old);
                let nobody = *kind == "home folder" && NOBODY.contains(&old.as_str());
                let stays = old == new || is_stand_in(&old) || code || nobody;
                if !stays {
                    clean.replace_range(place, &new);
                    *counts.entry(kind).or_default() += 1;
                }
            }
        }
        for (kind, name, new) in self.names() {
            let count = replace_name(&mut clean, &name, new, file.ends_with(".py"));
            if count > 0 {
                *counts.entry(kind).or_default() += count;
            }
        }
        for (kind, count) in counts {
            *self.found.entry((file.to_owned(), kind)).or_default() += count;
        }
        clean
    }

    /// Takes secrets out of the texts and keys of a JSON value; its shape stays.
    ///
    /// A text is cleaned as it reads: behind an escape such as `\n` the letters of the escape are no part of a word.
    pub fn clean_value(&mut self, file: &str, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.clean(file, text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(file, item)),
            Value::Object(entries) => {
                for (key, value) in entries.iter_mut() {
                    self.clean_value(file, value);
                    if let Value::String(text) = value {
                        *text = self.clean_named(file, key, text);
                    }
                }
                // A variable of a frame stands under its name.
                if let (Some(name), Some(text)) = (text_of(entries, "name"), text_of(entries, "value")) {
                    let clean = self.clean_named(file, &name, &text);
                    entries.insert("value".to_owned(), Value::String(clean));
                }
                // A program's own dictionary may have a secret as its key; our keys are short and plain.
                let plain = |key: &str| {
                    key.len() < 20 && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                };
                if entries.keys().any(|key| !plain(key)) {
                    let clean = std::mem::take(entries).into_iter().map(|(key, value)| {
                        let key = if plain(&key) { key } else { self.clean(file, &key) };
                        (key, value)
                    });
                    *entries = clean.collect();
                }
            }
            _ => {}
        }
    }

    /// A text whose key says that it is a secret.
    fn clean_named(&mut self, file: &str, key: &str, text: &str) -> String {
        if text.contains(['"', '\'', '\n']) {
            return text.to_owned();
        }
        let (before, after) = (format!("{key}=\""), "\"");
        let clean = self.clean(file, &format!("{before}{text}{after}"));
        let inside = clean.strip_prefix(&before).and_then(|rest| rest.strip_suffix(after));
        inside.unwrap_or(text).to_owned()
    }

    /// The lines of a ledger, each a JSON value; a line that is none is cleaned as text.
    fn clean_lines(&mut self, file: &str, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            match serde_json::from_str::<Value>(line) {
                Ok(before) => {
                    let mut value = before.clone();
                    self.clean_value(file, &mut value);
                    if value == before {
                        clean.push_str(line);
                    } else {
                        clean.push_str(&value.to_string());
                        clean.push('\n');
                    }
                }
                Err(_) => clean.push_str(&self.clean(file, line)),
            }
        }
        clean
    }

    /// Names of this machine, the longest first.
    fn names(&self) -> Vec<(&'static str, String, &'static str)> {
        let Private { user, host, home, .. } = &self.private;
        let mut names = Vec::new();
        if let Some(home) = home.as_ref().filter(|home| home.len() > 1) {
            names.push(("home folder", home.trim_end_matches('/').to_owned(), "/home/user"));
        }
        for (kind, name, new) in [("host name", host, "host"), ("user name", user, "user")] {
            if let Some(name) = name.as_ref().filter(|name| name.len() >= 3 && !NOBODY.contains(&name.as_str())) {
                names.push((kind, name.clone(), new));
            }
        }
        names
    }

    /// Cleans all files of a folder in place, but those to leave; `base` is what their names are told against.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn clean_folder(&mut self, folder: &Path, base: &Path, leave: &dyn Fn(&str) -> bool) -> io::Result<()> {
        for entry in ignore::WalkBuilder::new(folder).standard_filters(false).build().flatten() {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let path = entry.path();
            let name = path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned();
            if leave(&name) {
                continue;
            }
            let bytes = fs::read(path)?;
            let clean = match String::from_utf8(bytes) {
                Ok(text) => {
                    let ledger = name == "ledger.jsonl";
                    let clean = if ledger { self.clean_lines(&name, &text) } else { self.clean(&name, &text) };
                    if clean == text { None } else { Some(clean.into_bytes()) }
                }
                Err(error) => self.clean_bytes(&name, error.into_bytes()),
            };
            if let Some(clean) = clean {
                fs::write(path, clean)?;
            }
        }
        Ok(())
    }

    /// In binary files a secret is overwritten in its own length; nothing else may move.
    fn clean_bytes(&mut self, name: &str, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut count = 0;
        for (kind, pattern) in FORMATS.iter().filter(|(kind, _)| !["home folder", "secret by name"].contains(kind)) {
            let Ok(pattern) = regex::bytes::Regex::new(pattern) else { continue };
            let found = pattern.captures_iter(&bytes).filter_map(|found| found.get(1).or(found.get(0)));
            let places: Vec<_> = found.map(|part| part.range()).collect();
            for place in places {
                bytes[place].fill(b'x');
                count += 1;
                *self.found.entry((name.to_owned(), kind)).or_default() += 1;
            }
        }
        for (value, kind) in &self.known {
            let places: Vec<usize> = memchr::memmem::find_iter(&bytes, value.as_bytes()).collect();
            for at in places {
                bytes[at..at + value.len()].fill(b'x');
                count += 1;
                *self.found.entry((name.to_owned(), kind)).or_default() += 1;
            }
        }
        (count > 0).then_some(bytes)
    }

    /// What was replaced so far, by file.
    pub fn replaced(&self) -> Vec<Replaced> {
        let one = |((file, kind), count): (&(String, &'static str), &usize)| Replaced {
            file: file.clone(),
            kind: (*kind).to_owned(),
            count: *count,
        };
        self.found.iter().map(one).collect()
    }
}

/// What stands in the place of a secret.
fn stand_in(kind: &str, old: &str) -> String {
    match kind {
        "e-mail address" => "user@example.com".to_owned(),
        "home folder" => "user".to_owned(),
        _ => {
            let kind: String =
                kind.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
            // The length stays where it can: tables and fixed columns keep their shape.
            let word = format!("REPLACED_{kind}");
            let missing = old.chars().count().min(64).saturating_sub(word.len());
            word + &"_".repeat(missing)
        }
    }
}

/// Whether a value is so unlike a word that it is the same secret wherever it stands.
fn is_telling(value: &str) -> bool {
    let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
    value.len() >= 12 && has(char::is_ascii_digit) && has(char::is_ascii_alphabetic)
}

fn text_of(entries: &serde_json::Map<String, Value>, key: &str) -> Option<String> {
    entries.get(key)?.as_str().map(str::to_owned)
}

fn is_stand_in(text: &str) -> bool {
    text.starts_with("REPLACED_") || text == "user@example.com"
}

/// Replaces a name where it stands as a word; in code only inside texts and comments.
fn replace_name(text: &mut String, name: &str, new: &str, code: bool) -> usize {
    let places: Vec<usize> = text.match_indices(name).map(|(at, _)| at).collect();
    let mut count = 0;
    for at in places.into_iter().rev() {
        let end = at + name.len();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let whole = !word(text[..at].chars().next_back()) && !word(text[end..].chars().next());
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let inside = line.matches('"').count() % 2 == 1 || line.matches('\'').count() % 2 == 1 || line.contains('#');
        if whole && (!code || inside || name.starts_with('/')) {
            text.replace_range(at..end, new);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of an alphabet that is made anew from a seed.
    fn made(seed: u64, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap_or(0)
        };
        (0..length).map(|_| letters[next() % letters.len()]).collect()
    }

    const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const HEX: &str = "0123456789abcdef";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

    pub(super) fn generated(seed: u64) -> Vec<(&'static str, String, String)> {
        let word = |length| made(seed, WORD, length);
        let hex = |length| made(seed, HEX, length);
        let plain = |kind, secret: String| (kind, secret.clone(), secret);
        let within = |kind, secret: String, text: &str| (kind, secret.clone(), text.replace("{}", &secret));
        vec![
            plain("GitHub token", format!("ghp_{}", word(36))),
            plain("GitHub token", format!("github_pat_{}", word(60))),
            plain("GitLab token", format!("glpat-{}", word(20))),
            plain("Hugging Face token", format!("hf_{}", word(34))),
            plain("Anthropic key", format!("sk-ant-api03-{}", word(80))),
            plain("OpenAI key", format!("sk-proj-{}", word(48))),
            plain("AWS access key", format!("AKIA{}", made(seed, UPPER, 16))),
            within("AWS secret key", word(40), "aws_secret_access_key = {}"),
            plain("Google API key", format!("AIza{}", word(35))),
            plain("Google OAuth token", format!("ya29.{}", word(60))),
            plain("Slack token", format!("xoxb-{}-{}", made(seed, "123456789", 11), word(24))),
            within(
                "Slack webhook",
                format!("T{}/B{}/{}", made(seed, UPPER, 8), made(seed, UPPER, 8), word(24)),
                "https://hooks.slack.com/services/{}",
            ),
            plain("Stripe key", format!("sk_live_{}", word(24))),
            plain("npm token", format!("npm_{}", word(36))),
            plain("PyPI token", format!("pypi-AgEIcHlwaS5vcmc{}", word(60))),
            plain("SendGrid key", format!("SG.{}.{}", word(22), word(43))),
            plain("Twilio key", format!("SK{}", hex(32))),
            plain("Telegram token", format!("{}:AA{}", made(seed, "123456789", 9), word(33))),
            plain("JSON web token", format!("eyJ{}.eyJ{}.{}", word(20), word(40), word(43))),
            within("Azure storage key", format!("{}==", word(86)), "AccountKey={};EndpointSuffix=x"),
            plain("Databricks token", format!("dapi{}", hex(32))),
            plain("DigitalOcean token", format!("dop_v1_{}", hex(64))),
            within("Weights & Biases key", hex(40), "WANDB_API_KEY={}"),
            plain("Replicate token", format!("r8_{}", word(37))),
            within("password in a URL", word(12), "postgres://train:{}@db.internal/runs"),
            within("secret by name", word(14), "password = \"{}\""),
            plain("e-mail address", format!("{}.{}@example-lab.org", made(seed, "abcdef", 5), made(seed, "ghijk", 6))),
        ]
    }

    #[test]
    fn generated_secrets_of_every_format_are_gone_from_code_data_and_logs() {
        for seed in 1..40 {
            for (kind, secret, text) in generated(seed) {
                for shape in ["KEY = \"{}\"\n", "a,b\n1,{}\n", "Error: {} was refused\n", "{\"a\": \"{}\"}\n"] {
                    let mut secrets = Secrets::default();
                    let whole = shape.replacen("{}", &text, 1);
                    let clean = secrets.clean("file", &whole);
                    assert!(!clean.contains(&secret), "{kind}: {clean}");
                    assert_eq!(secrets.clean("file", &clean), clean, "{kind}");
                    assert!(!secrets.replaced().is_empty());
                }
            }
        }
    }

    #[test]
    fn a_secret_that_the_program_names_is_found_where_nothing_names_it() {
        let mut secrets = Secrets::default();
        let key = made(3, HEX, 40);
        let url = format!("S3{}", made(4, WORD, 12));
        secrets.learn(&format!("WANDB_API_KEY = '{key}'\nu = 'redis://me:{url}@db/0'\npassword = 'transformers'\n"));
        let clean = secrets.clean("source/a.csv", &format!("k,{key}\nu,{url}\nw,transformers\n"));
        assert!(!clean.contains(&key) && !clean.contains(&url) && clean.contains("transformers"), "{clean}");
        assert!(secrets.clean_bytes("a.npy", [b"\xff", key.as_bytes()].concat()).is_some());
        let mut frame = serde_json::json!({ "name": "aws_secret_access_key", "value": made(5, WORD, 40), "depth": 2 });
        Secrets::default().clean_value("ledger.jsonl", &mut frame);
        assert!(frame["value"].as_str().is_some_and(|text| text.starts_with("REPLACED_")), "{frame}");
    }

    #[test]
    fn names_addresses_and_homes_go_and_code_stays() {
        let private = Private {
            user: Some("alice".into()),
            host: Some("gpu-box-7".into()),
            home: Some("/data/people/alice".into()),
            values: vec!["hunter2hunter2".into()],
        };
        let mut secrets = Secrets::new(private);
        let log = "alice@gpu-box-7:/data/people/alice/x.py C:\\Users\\Bob\\x /home/carol/y hunter2hunter2";
        let clean = secrets.clean("crash.log", log);
        for gone in ["alice", "gpu-box", "Bob", "carol", "hunter2"] {
            assert!(!clean.contains(gone), "{gone}: {clean}");
        }
        assert!(clean.contains("/home/user/x.py"), "{clean}");
        let code = "alice = q@k.transpose(-2, -1)\ntoken = tokenizer.encode(text)\npassword = read()\nsk = x\n@torch.no_grad()\nh = a@w.T\n";
        assert_eq!(secrets.clean("a.py", code), code);
        assert_eq!(secrets.clean("a.py", "x = 'by alice'  # alice\n"), "x = 'by user'  # user\n");
        let kinds: Vec<_> =
            secrets.replaced().into_iter().filter(|one| one.file == "a.py").map(|one| one.kind).collect();
        assert_eq!(kinds, ["user name"]);
    }

    #[test]
    fn a_json_value_stays_one_whatever_its_texts_hold() {
        let mut secrets = Secrets::default();
        let (_, secret, _) = generated(7).remove(0);
        let own = serde_json::json!({ secret.as_str(): 5 });
        let mut value = serde_json::json!({
            "log": "first\nbob.jones@example.org said", "list": [secret, 1.5], "own": own, "WANDB_API_KEY": "c0ffee00c0ffee00",
        });
        let text = value.to_string();
        secrets.clean_value("ledger.jsonl", &mut value);
        assert_eq!(value["log"], "first\nuser@example.com said");
        assert!(!value.to_string().contains(&secret) && !value.to_string().contains("c0ffee"));
        let lines = secrets.clean_lines("ledger.jsonl", &(text + "\n"));
        assert_eq!(serde_json::from_str::<Value>(&lines).expect("still JSON"), value);
    }

    #[test]
    fn binary_files_keep_their_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bytes = b"\x93NUMPY\xff\x00".to_vec();
        let (_, secret, _) = generated(7).remove(0);
        bytes.extend(secret.bytes());
        fs::write(folder.path().join("a.npy"), &bytes).expect("a file");
        let mut secrets = Secrets::default();
        secrets.clean_folder(folder.path(), folder.path(), &|_| false).expect("a folder that can be read");
        let clean = fs::read(folder.path().join("a.npy")).expect("a file");
        assert_eq!(clean.len(), bytes.len());
        assert!(!clean.windows(secret.len()).any(|part| part == secret.as_bytes()));
        assert_eq!(secrets.replaced()[0].file, "a.npy");
    }
}

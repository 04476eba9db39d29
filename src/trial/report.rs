//! What the harness reports of a trial: the types of `outcome.json` and `trace.json`.
//!
//! Invariant: unknown or missing fields never fail a trial; the harness may be newer than the record.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A place in a project file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Relative to the project root.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// Name of the function, `<module>` at top level.
    pub func: String,
}

/// What a Python error says was missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Missing {
    /// `name`, `attribute`, `module`, `key` or `unbound`.
    pub kind: String,
    /// The missing name.
    pub name: String,
    /// Type or module on which an attribute was looked up.
    pub on: Option<String>,
}

/// A syntax error in a project file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyntaxProblem {
    /// Relative to the project root, or as Python names it.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// Python's words.
    pub message: String,
}

/// The exception that ended the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exception {
    /// Qualified type name.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub message: String,
    /// Project frames, outermost first.
    pub frames: Vec<Frame>,
    /// What was missing, where the error says so.
    pub missing: Option<Missing>,
    /// Where the syntax is wrong.
    pub syntax: Option<SyntaxProblem>,
}

/// One argument of the failing call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Argument {
    /// Name of the parameter, or its position.
    pub name: String,
    /// Shape of a tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<i64>>,
    /// Its type, for example `int64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Its device as the program sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Strides in elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<Vec<i64>>,
    /// Smallest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<serde_json::Value>,
    /// Greatest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<serde_json::Value>,
    /// Number of NaN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nan: Option<u64>,
    /// Number of infinite values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inf: Option<u64>,
    /// Text of an argument that is no tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// All values of a small tensor, nested as its dimensions; a number that JSON does not have is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<serde_json::Value>,
    /// Parts of a list that holds tensors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Argument>,
    /// Given by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keyword: bool,
}

/// The element that breaks the operator's rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offence {
    /// `above`, `below`, `nan`, `inf`, `negative`, `zero_sum` or `other`.
    pub kind: String,
    /// The value, as text.
    pub value: Option<String>,
    /// The limit that it breaks, as text.
    pub limit: Option<String>,
    /// Index of the element in its tensor.
    pub position: Option<Vec<i64>>,
    /// Index in the data set of the sample that holds it.
    pub sample: Option<i64>,
    /// Name of the argument that holds it.
    pub argument: Option<String>,
}

/// The first torch call that failed on the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Public name of the call.
    pub op: String,
    /// Operator under it, where known.
    pub aten: Option<String>,
    /// Project frames at the call, outermost first.
    pub frames: Vec<Frame>,
    /// The installed package whose code made the call; `None` for the project's own code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Its arguments.
    pub args: Vec<Argument>,
    /// The offending element, where its value could be read.
    pub offence: Option<Offence>,
    /// What the CPU says instead.
    pub cpu_text: Option<String>,
    /// The program went on after it.
    pub swallowed: bool,
}

/// Something that the harness noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// For example `unseeded_generator`.
    pub kind: String,
    /// Where, relative to the project root.
    pub file: Option<String>,
    /// 1-based.
    pub line: Option<u32>,
    /// In words.
    pub text: Option<String>,
}

/// A file that the program opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Opened {
    /// Relative to the project root where inside, else absolute.
    pub path: String,
    /// Mode, for example `r`.
    pub mode: String,
    /// Whether it lies in the project.
    pub project: bool,
}

/// An expression of the project that held the offending value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Relative to the project root.
    pub file: String,
    /// 1-based.
    pub line: u32,
    /// Name of the function, `<module>` at top level.
    pub function: String,
    /// The expression.
    pub text: String,
    /// Its result in short.
    pub value: String,
    /// Where in the result the value stands: indices and keys.
    pub position: Vec<serde_json::Value>,
}

/// A record (dict, text, list of plain values) that was at hand where the value appeared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AtHand {
    /// Calls away, 1 is the expression's own.
    pub depth: u32,
    /// Name of the variable.
    pub name: String,
    /// The record; parts that are no plain values are `...`.
    pub value: serde_json::Value,
}

/// An operand of the expression in which the value appeared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Operand {
    /// The expression.
    pub text: String,
    /// Its result in short.
    pub value: String,
}

/// Where the value appeared first, as far as it could be followed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FirstSeen {
    /// The expression.
    #[serde(flatten)]
    pub step: Step,
    /// What it was made from.
    pub made_from: Vec<Operand>,
    /// Texts among its operands.
    pub texts: Vec<String>,
    /// Numbers from which it was computed.
    pub numbers: Vec<serde_json::Value>,
    /// The field of a record that was read.
    pub field: Option<String>,
    /// Records at hand, nearest first.
    pub context: Vec<AtHand>,
    /// Whether the expression loads a file.
    pub load: bool,
    /// Where in the loaded array the value stands.
    pub first: Vec<serde_json::Value>,
    /// Whether the value was followed to where it is made; else it came from code outside of the project.
    pub complete: bool,
}

/// The path of the offending value, the failing call first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ValuePath {
    /// Expressions that held it.
    pub steps: Vec<Step>,
    /// Where it appeared first.
    pub origin: Option<FirstSeen>,
}

/// `outcome.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// `clean`, `exception` or `exit`.
    pub end: String,
    /// Status of `sys.exit`.
    pub exit_code: Option<i64>,
    /// The exception that ended the program.
    pub exception: Option<Exception>,
    /// The first failing torch call.
    pub failure: Option<Failure>,
    /// The path of the offending value, where it was followed.
    pub path: Option<ValuePath>,
    /// What the emulated device cannot do.
    pub not_emulated: Option<String>,
    /// What was noticed on the way.
    pub notes: Vec<Note>,
    /// Imported modules at the end.
    pub modules: Vec<String>,
    /// Imported project files.
    pub imported: Vec<String>,
    /// Opened files.
    pub opened: Vec<Opened>,
    /// Everything else that the harness says, for `context.yaml`.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// `trace.json`: executed lines and calls of project files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// File to `[line, sequence of first execution, count]`.
    pub executed: BTreeMap<String, Vec<(u32, u64, u64)>>,
    /// Caller file, caller line, callee file, first line of the callee, count.
    pub calls: Vec<(String, u32, String, u32, u64)>,
    /// Lines whose sequence is at most this ran before the last execution of the failing line; `None` where it is not known.
    pub until: Option<u64>,
}

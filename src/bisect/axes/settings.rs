//! The axis `settings`: environment variables, arguments, configuration keys and pins, each of which is there or not.
//!
//! Invariant: an element that is absent is as if it had never been typed; the program's own files stay as they are.
//! It asks nothing.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::super::axis::{AxisError, Place, Ready, Unordered};
use super::config::Config;
use crate::case::{Case, Invocation};
use crate::trial::{Mode, Opened, Variation};

/// Largest configuration file that is looked into, in bytes.
const LARGEST: u64 = 1 << 20;

/// One setting that may be there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A variable of the case or the command.
    Variable(String, String),
    /// An option with its values: their place in the arguments.
    Option(Vec<usize>),
    /// An entry of a configuration file: the file and the number of the entry.
    Entry(String, usize),
    /// A pin of ours.
    Pin(Pin),
}

/// A switch that steadies a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// `CUDA_LAUNCH_BLOCKING=1`.
    LaunchBlocking,
    /// Seed 0 of every generator.
    Seed,
    /// DataLoaders without workers.
    NoWorkers,
    /// Deterministic algorithms.
    Deterministic,
    /// TF32 off.
    NoTf32,
    /// cuDNN's benchmark off.
    NoBenchmark,
    /// cuDNN off.
    NoCudnn,
    /// No caching allocator.
    NoCaching,
    /// One thread on the CPU.
    OneThread,
}

impl Pin {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::LaunchBlocking,
        Self::Seed,
        Self::NoWorkers,
        Self::Deterministic,
        Self::NoTf32,
        Self::NoBenchmark,
        Self::NoCudnn,
        Self::NoCaching,
        Self::OneThread,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::LaunchBlocking => "CUDA_LAUNCH_BLOCKING=1",
            Self::Seed => "seed 0",
            Self::NoWorkers => "num_workers=0",
            Self::Deterministic => "torch.use_deterministic_algorithms(True)",
            Self::NoTf32 => "allow_tf32=False",
            Self::NoBenchmark => "cudnn.benchmark=False",
            Self::NoCudnn => "cudnn.enabled=False",
            Self::NoCaching => "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
            Self::OneThread => "OMP_NUM_THREADS=1",
        }
    }
}

/// The settings of a case.
#[derive(Clone, Debug)]
pub struct Settings {
    elements: Vec<Element>,
    argv: Vec<String>,
    configs: BTreeMap<String, Config>,
}

impl Settings {
    /// What the case and its command set: variables, options, entries of the configuration files that were read.
    pub fn of(case: &Case, invocation: &Invocation, opened: &[Opened]) -> Self {
        let mut elements: Vec<Element> = Vec::new();
        let mut variables = case.setting.env.clone();
        variables.extend(invocation.env.clone());
        elements.extend(variables.into_iter().map(|(name, value)| Element::Variable(name, value)));
        elements.extend(options(&invocation.argv).into_iter().map(Element::Option));
        let mut configs = BTreeMap::new();
        for opened in opened.iter().filter(|opened| opened.project && !opened.mode.contains(['w', 'a', 'x', '+'])) {
            if let Some(config) = read_config(&invocation.project, &opened.path) {
                elements.extend((0..config.names().len()).map(|number| Element::Entry(opened.path.clone(), number)));
                configs.insert(opened.path.clone(), config);
            }
        }
        Self { elements, argv: invocation.argv.clone(), configs }
    }

    /// The pins that are not part of the case: which of them hides a failure?
    pub fn pins(invocation: &Invocation) -> Self {
        Self {
            elements: Pin::ALL.into_iter().map(Element::Pin).collect(),
            argv: invocation.argv.clone(),
            configs: BTreeMap::new(),
        }
    }

    /// The elements.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }
}

impl Unordered for Settings {
    fn name(&self) -> &'static str {
        "settings"
    }

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn label(&self, element: usize) -> String {
        match &self.elements[element] {
            Element::Variable(name, value) => format!("{name}={value}"),
            Element::Option(words) => words.iter().map(|at| self.argv[*at].clone()).collect::<Vec<_>>().join(" "),
            Element::Entry(file, number) => {
                let name = self.configs.get(file).and_then(|config| config.names().get(*number).cloned());
                format!("{file}: {}", name.unwrap_or_default())
            }
            Element::Pin(pin) => pin.label().to_owned(),
        }
    }

    fn prepare(&mut self, elements: &[usize]) -> Result<Ready, AxisError> {
        let there: Vec<&Element> = elements.iter().map(|at| &self.elements[*at]).collect();
        let absent: Vec<&Element> =
            (0..self.elements.len()).filter(|at| !elements.contains(at)).map(|at| &self.elements[at]).collect();
        let mut variation = Variation::default();
        let mut words = vec![true; self.argv.len()];
        let mut entries: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for element in absent {
            match element {
                Element::Variable(name, _) => {
                    variation.env.insert(name.clone(), None);
                }
                Element::Option(places) => places.iter().for_each(|at| words[*at] = false),
                Element::Entry(file, number) => entries.entry(file).or_default().push(*number),
                Element::Pin(_) => {}
            }
        }
        let mut switches = serde_json::Map::new();
        for element in there {
            if let Element::Pin(pin) = element {
                turn(*pin, &mut variation, &mut switches);
            }
        }
        if !switches.is_empty() {
            variation.hook = Some(("settings", serde_json::Value::Object(switches)));
        }
        variation.argv =
            Some(self.argv.iter().zip(&words).filter(|(_, kept)| **kept).map(|(word, _)| word.clone()).collect());
        for (file, numbers) in entries {
            if let Some(config) = self.configs.get(file) {
                variation.files.push((file.to_owned(), config.without(&numbers).into_bytes()));
            }
        }
        // Variables that libraries read as they are imported only count in a fresh interpreter.
        Ok(Ready::Run(Box::new(Place { variation, mode: Some(Mode::Exec) })))
    }
}

fn turn(pin: Pin, variation: &mut Variation, switches: &mut serde_json::Map<String, serde_json::Value>) {
    let mut set = |name: &str, value: &str| {
        variation.env.insert(name.to_owned(), Some(value.to_owned()));
    };
    match pin {
        Pin::LaunchBlocking => set("CUDA_LAUNCH_BLOCKING", "1"),
        Pin::NoCaching => set("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
        Pin::OneThread => set("OMP_NUM_THREADS", "1"),
        Pin::Seed => {
            switches.insert("seed".into(), json!(0));
        }
        Pin::NoWorkers => {
            switches.insert("num_workers".into(), json!(0));
        }
        Pin::Deterministic => {
            set("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
            switches.insert("deterministic".into(), json!(true));
        }
        Pin::NoTf32 => {
            switches.insert("tf32".into(), json!(false));
        }
        Pin::NoBenchmark => {
            switches.insert("cudnn_benchmark".into(), json!(false));
        }
        Pin::NoCudnn => {
            switches.insert("cudnn".into(), json!(false));
        }
    }
}

/// Options with the values behind them; words before the first option belong to the program and stay.
fn options(argv: &[String]) -> Vec<Vec<usize>> {
    let is_option = |word: &str| word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (at, word) in argv.iter().enumerate() {
        if word == "--" {
            break;
        }
        if is_option(word) {
            found.push(vec![at]);
        } else if let Some(option) = found.last_mut()
            && !argv[option[0]].contains('=')
        {
            option.push(at);
        }
    }
    found
}

fn read_config(project: &Path, path: &str) -> Option<Config> {
    let file = project.join(path);
    if std::fs::metadata(&file).ok()?.len() > LARGEST {
        return None;
    }
    Config::parse(path, &std::fs::read_to_string(file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_their_values_and_plain_words_stay() {
        let argv: Vec<String> =
            ["train", "--lr", "-0.1", "-v", "--name=x", "--size", "3", "4"].map(str::to_owned).to_vec();
        assert_eq!(options(&argv), vec![vec![1, 2], vec![3], vec![4], vec![5, 6, 7]]);
    }
}

//! What bug reports ask for as versions: of PyTorch in the form of `torch.utils.collect_env`, of transformers in that of its
//! `env` command.
//!
//! Invariant: a line stands there only where the first run said what it says; labels are those of the tools.

use serde_json::Value;

use super::summary::Summary;
use super::words;
use crate::trial::Device;

/// Distributions that PyTorch's own list names, by the start of their name.
const RELEVANT: [&str; 14] = [
    "torch",
    "numpy",
    "triton",
    "nvidia-",
    "optree",
    "onnx",
    "mypy",
    "flake8",
    "intel",
    "mkl",
    "flashinfer",
    "apex",
    "transformers",
    "pytorch",
];

/// Lines as `python -m torch.utils.collect_env` prints them.
pub(super) fn of_pytorch(summary: &Summary) -> Vec<String> {
    let facts = Facts(&summary.environment);
    let setting = &summary.setting;
    let mut lines = vec![format!("PyTorch version: {}", setting.torch.as_deref().unwrap_or("unknown"))];
    let mut line = |label: &str, value: Option<String>| lines.extend(value.map(|value| format!("{label}: {value}")));
    line("Is debug build", facts.system("debug").map(python));
    line("CUDA used to build PyTorch", Some(setting.cuda.clone().unwrap_or_else(|| "Could not collect".to_owned())));
    line("ROCM used to build PyTorch", Some(facts.system("hip").map_or_else(|| "N/A".to_owned(), python)));
    line("\nOS", facts.os());
    line("Libc version", facts.system("libc").map(python));
    line("\nPython version", Some(facts.python(&setting.python)));
    line("Python platform", facts.system("platform").map(python));
    match summary.device {
        Device::Cuda => {
            line("Is CUDA available", Some("True".to_owned()));
            line("CUDA_MODULE_LOADING set to", facts.system("module_loading").map(python));
            line("GPU models and configuration", facts.gpus());
            line("Nvidia driver version", facts.system("driver").map(python));
            line("cuDNN version", facts.system("cudnn").map(python));
        }
        Device::Emulated => {
            line("GPU models and configuration", Some(format!("none: it ran on {}", words::ran_on(summary.device))));
        }
    }
    line("Is XNNPACK available", facts.system("xnnpack").map(python));
    if let Some(cpu) = facts.system("cpu") {
        lines.push(format!("\nCPU:\nModel name: {}", python(cpu)));
        lines.extend(facts.system("cores").map(|cores| format!("CPU(s): {cores}")));
    }
    lines.push("\nVersions of relevant libraries:".to_owned());
    for (name, version) in facts.packages() {
        if RELEVANT.iter().any(|start| name.to_lowercase().starts_with(start)) {
            lines.push(format!("[pip3] {name}=={version}"));
        }
    }
    lines
}

/// Lines as `transformers env` prints them.
pub(super) fn of_transformers(summary: &Summary) -> Vec<String> {
    let facts = Facts(&summary.environment);
    let setting = &summary.setting;
    let version = |name: &str| {
        let found = facts.packages().find(|(package, _)| package.replace('-', "_").eq_ignore_ascii_case(name));
        found.map_or_else(|| "not imported".to_owned(), |(_, version)| version.to_owned())
    };
    let gpu = match summary.device {
        Device::Cuda => facts.gpus().unwrap_or_else(|| "a GPU".to_owned()),
        Device::Emulated => format!("none: it ran on {}", words::ran_on(summary.device)),
    };
    vec![
        format!("- `transformers` version: {}", version("transformers")),
        format!("- Platform: {}", facts.system("platform").map_or_else(|| "unknown".to_owned(), python)),
        format!("- Python version: {}", setting.python),
        format!("- Huggingface_hub version: {}", version("huggingface_hub")),
        format!("- Safetensors version: {}", version("safetensors")),
        format!("- Accelerate version: {}", version("accelerate")),
        format!("- PyTorch version: {}", setting.torch.as_deref().unwrap_or("unknown")),
        format!("- CUDA used to build PyTorch: {}", setting.cuda.as_deref().unwrap_or("none")),
        format!("- GPU type: {gpu}"),
    ]
}

/// What the first run said of its surroundings.
struct Facts<'a>(&'a Value);

impl<'a> Facts<'a> {
    fn system(&self, key: &str) -> Option<&'a Value> {
        self.0.get("system")?.get(key).filter(|value| !value.is_null())
    }

    fn os(&self) -> Option<String> {
        let name = self.system("os").map(python)?;
        Some(self.system("machine").map_or(name.clone(), |machine| format!("{name} ({})", python(machine))))
    }

    /// The whole version line of the interpreter, as it says it itself.
    fn python(&self, short: &str) -> String {
        let whole = self.0.get("python").and_then(Value::as_str).unwrap_or(short).replace('\n', "");
        self.system("bits").map_or(whole.clone(), |bits| format!("{whole} ({bits}-bit runtime)"))
    }

    fn gpus(&self) -> Option<String> {
        let models = self.system("gpus")?.as_array()?.iter().map(python);
        Some(models.enumerate().map(|(number, model)| format!("\nGPU {number}: {model}")).collect())
    }

    fn packages(&self) -> impl Iterator<Item = (&'a String, &'a str)> + use<'a> {
        let packages = self.0.get("packages").and_then(Value::as_object);
        packages.into_iter().flatten().filter_map(|(name, version)| Some((name, version.as_str()?)))
    }
}

/// A value as Python prints it.
fn python(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! What is known of Python and of PyTorch: names that objects have without the program's doing, and calls that refuse `None`.
//!
//! Invariant: a list of names that are taken may be too long but not too short; a list of refusals the other way round.

/// Public names of `torch.nn.Module` and of `torch.utils.data.Dataset`, and what the library hangs on modules.
const MODULE: &[&str] = &[
    "T_destination",
    "add_module",
    "apply",
    "bfloat16",
    "bias",
    "bias_g",
    "bias_v",
    "buffers",
    "call_super_init",
    "children",
    "compile",
    "cpu",
    "cuda",
    "datapipes",
    "device",
    "double",
    "dtype",
    "dump_patches",
    "eval",
    "extra_repr",
    "float",
    "forward",
    "functions",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "half",
    "hpu",
    "ipu",
    "load_state_dict",
    "module",
    "modules",
    "mtia",
    "named_buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "npu",
    "parameters",
    "parametrizations",
    "register_backward_hook",
    "register_buffer",
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_function",
    "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_module",
    "register_parameter",
    "register_state_dict_post_hook",
    "register_state_dict_pre_hook",
    "requires_grad_",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "state_dict",
    "to",
    "to_empty",
    "train",
    "training",
    "type",
    "weight",
    "weight_g",
    "weight_mask",
    "weight_orig",
    "weight_u",
    "weight_v",
    "xpu",
    "zero_grad",
];

/// Whether an object whose class has known bases may have an attribute of this name without the program's doing.
pub(super) fn may_have(name: &str) -> bool {
    name.starts_with('_') || name == "mro" || MODULE.contains(&name)
}

/// Bases that the analysis knows.
pub(super) fn is_plain_base(path: &str) -> bool {
    path == "builtins.object" || is_module(path) || is_dataset(path)
}

/// The base of all modules.
pub(super) fn is_module(path: &str) -> bool {
    ["torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"].contains(&path)
}

fn is_dataset(path: &str) -> bool {
    ["torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset"].contains(&path)
}

/// The loader of batches.
pub(super) fn is_loader(path: &str) -> bool {
    ["torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"].contains(&path)
}

/// Modules of the library: assigning one needs the module's own `__init__` to have run.
pub(super) fn makes_module(path: &str) -> bool {
    const LAYERS: &[&str] = &[
        "AvgPool2d",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "CrossEntropyLoss",
        "Dropout",
        "Embedding",
        "EmbeddingBag",
        "Flatten",
        "GELU",
        "GRU",
        "GRUCell",
        "GroupNorm",
        "Identity",
        "LSTM",
        "LSTMCell",
        "LayerNorm",
        "Linear",
        "MaxPool2d",
        "ModuleDict",
        "ModuleList",
        "MultiheadAttention",
        "Parameter",
        "RNN",
        "ReLU",
        "Sequential",
        "Sigmoid",
        "Softmax",
        "Tanh",
        "TransformerDecoder",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
    ];
    path.strip_prefix("torch.nn.").is_some_and(|name| LAYERS.contains(&name))
}

/// Calls that refuse `None` as their first argument.
pub(super) fn refuses_none(path: &str) -> bool {
    const REFUSE: &[&str] = &[
        "builtins.abs",
        "builtins.all",
        "builtins.any",
        "builtins.enumerate",
        "builtins.float",
        "builtins.int",
        "builtins.iter",
        "builtins.len",
        "builtins.list",
        "builtins.next",
        "builtins.open",
        "builtins.range",
        "builtins.reversed",
        "builtins.set",
        "builtins.sorted",
        "builtins.sum",
        "builtins.tuple",
        "builtins.zip",
        "torch.argmax",
        "torch.as_tensor",
        "torch.cat",
        "torch.from_numpy",
        "torch.nn.functional.cross_entropy",
        "torch.nn.functional.dropout",
        "torch.nn.functional.gelu",
        "torch.nn.functional.linear",
        "torch.nn.functional.log_softmax",
        "torch.nn.functional.mse_loss",
        "torch.nn.functional.nll_loss",
        "torch.nn.functional.one_hot",
        "torch.nn.functional.pad",
        "torch.nn.functional.relu",
        "torch.nn.functional.softmax",
        "torch.relu",
        "torch.softmax",
        "torch.stack",
        "torch.tensor",
    ];
    REFUSE.binary_search(&path).is_ok()
}

/// Decorators that hand back what the function gives.
pub(super) fn is_transparent(decorator: &str) -> bool {
    ["classmethod", "staticmethod", "torch.no_grad()", "torch.inference_mode()", "torch.no_grad"].contains(&decorator)
}

/// Words in whose presence an exception may be caught, or lost in another thread.
pub(super) const CATCHING: &[&str] = &[
    "exec(",
    "eval(",
    "globals(",
    "locals(",
    "builtins.",
    "import *",
    "suppress",
    "raises",
    "Raises",
    "__exit__",
    "contextmanager",
    "ExitStack",
    "Thread",
    "threading",
    "_thread",
    "os.fork",
    "Formatter",
    "logging.Handler",
    "logging.Filter",
    "StreamHandler",
    "concurrent",
    "multiprocessing",
    "asyncio",
    "__del__",
    "return_exceptions",
    "excepthook",
    "faulthandler",
    "importlib",
    "__import__",
    "settrace",
    "atexit",
    "spawn",
    "weakref",
    "ctypes",
];

/// Words in whose presence reading an item may add one.
pub(super) const GROWING: &[&str] = &["defaultdict", "__missing__", "setdefault"];

/// Words in whose presence text may be reached or attributes set otherwise than by name.
pub(super) const DYNAMIC: &[&str] = &[
    "setattr",
    "getattr",
    "hasattr",
    "delattr",
    "vars(",
    "globals(",
    "locals(",
    "exec(",
    "eval(",
    "import *",
    "importlib",
    "__import__",
    "__dict__",
    "__slots__",
    "__new__",
    "__getattr",
    "__setattr",
    "__class__",
    "__init_subclass__",
    "__subclasses__",
    "metaclass",
    "type(self)",
    "sys.modules",
    "import inspect",
    "from inspect",
    "unittest",
    "pytest",
    "import fire",
    "from fire",
    "doctest",
    "pickle",
    "dill",
    "joblib",
    "mock",
    ".patch",
    "monkeypatch",
    "torch.load",
    "torch import load",
    "dir(",
    "register_forward",
    "full_backward",
    "runpy",
    "pkgutil",
    "jsonargparse",
    "LightningCLI",
    "typer",
    "torch.jit",
    ".script(",
    "torch.compile",
    ".__call__",
    "attrgetter",
    "methodcaller",
    "Enum",
    "NamedTuple",
    "namedtuple",
    "Protocol",
];

/// Whether a text holds a word; a function is meant only where its name is not part of a longer one, or of a method's.
pub(super) fn holds(text: &str, word: &str) -> bool {
    let is_function = word.ends_with('(') && word.starts_with(|first: char| first.is_alphabetic());
    // A function may be called by another name.
    let word = if is_function { word.trim_end_matches('(') } else { word };
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let rest = &text[at + word.len()..];
        let is_part = |next: char| next.is_alphanumeric() || next == '_';
        let is_prose = rest.starts_with(is_part) || rest.trim_start_matches(' ').starts_with(char::is_alphanumeric);
        let is_own = before.is_none_or(|before| !is_part(before) && !['.', '"', '\''].contains(&before));
        !is_function || is_own && !is_prose
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_found() {
        assert!(refuses_none("builtins.abs") && refuses_none("torch.tensor"));
        assert!(refuses_none("torch.nn.functional.cross_entropy") && !refuses_none("builtins.print"));
    }

    #[test]
    fn a_word_is_not_part_of_another() {
        assert!(holds("x = eval(y)", "eval(") && holds("eval(y)", "eval("));
        assert!(!holds("model.eval()", "eval(") && !holds("os.path.isdir(x)", "dir("));
        assert!(holds("torch.multiprocessing", "multiprocessing"));
    }
}

//! A failure of the backward pass as a program: the forward call, a change of what it has saved, and `.backward()`.
//!
//! Invariant: a regular table, from the kernel of the backward pass to its forward call with the smallest arguments; nothing
//! recorded is needed but the device and the kind of the offence, for on a real device no value is known here.
//! It must not make a program for a failure that is not of `backward` itself.

use super::text::{self, Call};
use crate::signature::Signature;
use crate::trial::Failure;

/// The program of a failure in backward; `None` where its kernel belongs to no forward call that is known here.
pub(super) fn program(failure: &Failure, signature: &Signature, device: &str) -> Option<String> {
    if !matches!(failure.op.rsplit('.').next(), Some("backward" | "grad")) {
        return None;
    }
    let forward = Forward::of(signature)?;
    let below = failure.offence.as_ref().is_some_and(|offence| offence.kind == "below");
    let wrong = if below { "-1" } else { forward.beyond() };
    let zeros = |shape: &str| format!("torch.zeros({shape}, device=\"{device}\", requires_grad=True)");
    let saved = |name: &str| format!("{name} = torch.tensor(0, device=\"{device}\")");
    let changed = |name: &str| format!("{name}.data.fill_({wrong})");
    let lines = match forward {
        Forward::Loss => vec![
            saved("target"),
            format!("loss = torch.nn.functional.cross_entropy({}, target)", zeros("1")),
            changed("target"),
            "loss.backward()".to_owned(),
        ],
        Forward::Picked(name) => vec![
            saved("index"),
            format!("output = torch.{name}({}, 0, index)", zeros("1")),
            changed("index"),
            "output.backward()".to_owned(),
        ],
        Forward::Pooled(name, shape) => vec![
            format!("output, index = torch.nn.functional.{name}_with_indices({}, 1, 1)", zeros(shape)),
            changed("index"),
            "output.backward()".to_owned(),
        ],
    };
    Some(text::program(&Call::Statement(lines.join("\n"))))
}

/// The forward call whose saved indices a kernel of the backward pass checks again.
enum Forward {
    /// A loss with labels: they are the target.
    Loss,
    /// Elements that an index picks: the index is the argument.
    Picked(&'static str),
    /// A fractional pooling: the index is a result.
    Pooled(&'static str, &'static str),
}

impl Forward {
    fn of(signature: &Signature) -> Option<Self> {
        let kernel = signature.function.as_deref()?;
        Some(match signature.file.as_deref()? {
            "Loss.cu" | "NLLLoss2d.cu" if kernel.starts_with("nll_loss") => Self::Loss,
            "ScatterGatherKernel.cu" => Self::Picked("gather"),
            "Indexing.cu" if kernel.starts_with("indexFunc") => Self::Picked("index_select"),
            "FractionalMaxPool2d.cu" => Self::Pooled("fractional_max_pool2d", "1, 1, 1"),
            "FractionalMaxPool3d.cu" => Self::Pooled("fractional_max_pool3d", "1, 2, 2, 2"),
            _ => return None,
        })
    }

    /// The first index above what the forward call takes.
    fn beyond(&self) -> &'static str {
        // A pooling of three dimensions refuses an input of one element.
        if matches!(self, Self::Pooled("fractional_max_pool3d", _)) { "8" } else { "1" }
    }
}

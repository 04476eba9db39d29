//! The failing torch call as a program of its own, from the smallest that the operator's rule allows to the call as recorded.
//!
//! Invariant: each form is only a proposal, in the order in which they are to be tried; a form keeps the operator, the kind
//! of offence and the device, and holds no data beside literals.
//! It runs nothing, and knows operators only in `smallest.rs` and `backward.rs`.

mod backward;
mod recorded;
mod smallest;
mod text;

use crate::signature::Signature;
use crate::trial::Failure;

/// A program that makes one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The program.
    pub text: String,
    /// How it was made, in words.
    pub how: &'static str,
    /// Smaller programs that are worth a run once this one has held, smallest first.
    pub smaller: Vec<Form>,
}

/// Torch's version as far as rules depend on it: major and minor.
pub type Version = (u32, u32);

/// The forms of a failing call, smallest first; none where its arguments are not known.
pub fn forms(failure: &Failure, signature: &Signature, torch: Version) -> Vec<Form> {
    let Some(device) = text::device(failure) else { return Vec::new() };
    let mut forms = Vec::new();
    let mut add = |text: Option<String>, how: &'static str| {
        if let Some(text) = text
            && !forms.iter().any(|form: &Form| form.text == text)
        {
            forms.push(Form { text, how, smaller: Vec::new() });
        }
    };
    add(
        smallest::program(failure, torch, &device),
        "the failing call alone, with the smallest arguments that break the operator's rule",
    );
    add(
        backward::program(failure, signature, &device),
        "the forward call, a change of what it has saved and its backward, as small as the operator's rule allows",
    );
    add(
        recorded::program(failure, recorded::Shapes::AtMost(1), recorded::Options::Kept),
        "the failing call alone, with one element in each dimension",
    );
    add(
        recorded::program(failure, recorded::Shapes::AsRecorded, recorded::Options::Kept),
        "the failing call alone, with the recorded shapes and the offending value",
    );
    if let Some(last) = forms.last_mut() {
        last.smaller = smaller(failure, &last.text);
    }
    forms
}

/// Sizes that are large enough for kernels that need several elements or a whole vector of them.
const SIZES: [(i64, recorded::Options); 3] =
    [(2, recorded::Options::Dropped), (8, recorded::Options::Dropped), (8, recorded::Options::Kept)];

/// The call as recorded with smaller shapes, smallest first.
fn smaller(failure: &Failure, whole: &str) -> Vec<Form> {
    let mut smaller: Vec<Form> = Vec::new();
    for (size, options) in SIZES {
        let Some(text) = recorded::program(failure, recorded::Shapes::AtMost(size), options) else { continue };
        if text.len() < whole.len() && !smaller.iter().any(|form| form.text == text) {
            let how = "the failing call alone, with the offending value and shapes as small as the kernel allows";
            smaller.push(Form { text, how, smaller: Vec::new() });
        }
    }
    smaller
}

/// Reads a version of torch.
pub fn version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Family;
    use crate::trial::{Argument, Offence};
    use serde_json::json;

    fn tensor(name: &str, shape: &[i64], dtype: &str) -> Argument {
        Argument {
            name: name.into(),
            shape: Some(shape.to_vec()),
            dtype: Some(dtype.into()),
            device: Some("cuda:0".into()),
            ..Argument::default()
        }
    }

    fn failure(op: &str, kind: &str, argument: &str, args: Vec<Argument>) -> Failure {
        let offence = Offence {
            kind: kind.into(),
            value: Some("7".into()),
            limit: Some("5".into()),
            argument: Some(argument.into()),
            ..Offence::default()
        };
        Failure { op: op.into(), args, offence: Some(offence), ..Failure::default() }
    }

    fn signature(file: &str, function: &str) -> Signature {
        Signature {
            family: Family::DeviceAssert,
            class: "index_out_of_range".into(),
            operator: None,
            file: Some(file.into()),
            function: Some(function.into()),
            condition: None,
            message: None,
            exception: None,
        }
    }

    fn texts(failure: &Failure) -> Vec<String> {
        let signature = signature("IndexKernel.cu", "index_kernel");
        forms(failure, &signature, (2, 11)).into_iter().map(|form| form.text).collect()
    }

    #[test]
    fn a_failure_of_backward_is_its_forward_call_and_backward_though_no_value_is_known() {
        let failure = Failure {
            op: "torch.Tensor.backward".into(),
            args: vec![tensor("self", &[], "float32")],
            ..Failure::default()
        };
        let of = |file: &str, function: &str| forms(&failure, &signature(file, function), (2, 11));
        let found = of("Loss.cu", "nll_loss_backward_reduce_cuda_kernel_2d");
        assert_eq!(
            found.first().map(|form| form.text.as_str()),
            Some(
                "import torch\n\ntarget = torch.tensor(0, device=\"cuda\")\n\
                 loss = torch.nn.functional.cross_entropy(torch.zeros(1, device=\"cuda\", requires_grad=True), target)\n\
                 target.data.fill_(1)\nloss.backward()\ntorch.cuda.synchronize()\n"
            )
        );
        assert_eq!(of("IndexKernel.cu", "index_kernel"), []);
    }

    #[test]
    fn the_smallest_form_comes_first_and_the_recorded_one_last() {
        let args = vec![tensor("input", &[32, 5], "float32"), tensor("target", &[32], "int64")];
        let texts = texts(&failure("torch.nn.functional.cross_entropy", "above", "target", args));
        assert_eq!(
            texts,
            [
                "import torch\n\nprint(torch.nn.functional.cross_entropy(torch.zeros(1, device=\"cuda\"), \
                 torch.tensor(1, device=\"cuda\")))\n",
                "import torch\n\nprint(torch.nn.functional.cross_entropy(torch.zeros(1, 1, device=\"cuda\"), \
                 torch.tensor([7], device=\"cuda\")))\n",
                "import torch\n\nprint(torch.nn.functional.cross_entropy(torch.zeros(32, 5, device=\"cuda\"), \
                 torch.full((32,), 7, device=\"cuda\")))\n",
            ]
        );
    }

    #[test]
    fn a_method_is_called_on_its_first_argument() {
        let args = vec![
            tensor("self", &[9, 2], "float32"),
            Argument { name: "dim".into(), value: Some("0".into()), ..Argument::default() },
            tensor("index", &[3], "int64"),
            tensor("source", &[3, 2], "float32"),
        ];
        let texts = texts(&failure("torch.Tensor.index_add_", "below", "index", args));
        assert!(texts[0].contains("print(torch.zeros(1, device=\"cuda\").index_add_(0, torch.tensor(-1, device=\"cuda\"), torch.zeros(1, device=\"cuda\")))"), "{}", texts[0]);
    }

    #[test]
    fn an_assignment_waits_for_the_device() {
        let value = Argument { name: "value".into(), value: Some("1.0".into()), ..Argument::default() };
        let args = vec![tensor("self", &[9], "float32"), tensor("index", &[1], "int64"), value];
        let texts = texts(&failure("torch.Tensor.__setitem__", "above", "index", args));
        assert!(
            texts[0].ends_with(
                "torch.zeros(1, device=\"cuda\")[torch.tensor([1], device=\"cuda\")] = 0\ntorch.cuda.synchronize()\n"
            ),
            "{}",
            texts[0]
        );
    }

    #[test]
    fn an_operator_without_a_rule_is_called_as_recorded() {
        let mut args = vec![tensor("arg0", &[2, 3], "float16")];
        args[0].values = Some(json!([["nan", 1.0, 2.0], [0.0, 0.0, 0.0]]));
        let mut failing = failure("torch.frobnicate", "nan", "arg0", args);
        failing.args.push(Argument {
            name: "how".into(),
            value: Some("'hard'".into()),
            keyword: true,
            ..Argument::default()
        });
        assert_eq!(
            texts(&failing).last().unwrap(),
            "import torch\n\nprint(torch.frobnicate(torch.tensor([[torch.nan, 1.0, 2.0], [0.0, 0.0, 0.0]], \
             dtype=torch.float16, device=\"cuda\"), how='hard'))\n"
        );
    }

    #[test]
    fn an_argument_that_cannot_be_written_makes_no_program() {
        let args = vec![
            tensor("x", &[2], "float32"),
            Argument { name: "f".into(), value: Some("<function f at 0x7>".into()), ..Argument::default() },
        ];
        assert_eq!(texts(&failure("torch.frobnicate", "above", "x", args)), Vec::<String>::new());
    }
}

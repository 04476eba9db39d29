//! `context.yaml`: what somebody else needs to believe the failure and to run it again.

use serde_json::{Value, json};

use super::{Contents, words};
use crate::yaml;

/// The text of `context.yaml`.
pub(super) fn yaml(contents: &Contents<'_>) -> String {
    yaml::to_string(&value(contents)).unwrap_or_default()
}

fn value(contents: &Contents<'_>) -> Value {
    let Contents { found, ground, .. } = contents;
    let failure = found.failure.as_ref();
    let arguments: Vec<Value> =
        failure.iter().flat_map(|failure| &failure.args).map(|argument| short(json!(argument))).collect();
    json!({
        "command": ground.case.command.text,
        "workdir": ground.invocation.workdir,
        "environment_variables": ground.case.setting.env,
        "python": { "version": ground.python.version },
        "torch": ground.python.torch.as_ref().map(|torch| json!({ "version": torch.version, "cuda": torch.cuda })),
        "device": words::device(ground.device),
        "confirmed_on": contents.confirmed.any().then(|| words::ran_on(ground.device)),
        "pins": {
            "launch_blocking": found.pins.launch_blocking, "seed": found.pins.seed,
            "num_workers": found.pins.num_workers, "mode": found.mode, "not_used": found.hidden,
        },
        "as_given": found.as_given,
        "signature": found.signature,
        "failing_operator": failure.map(|failure| json!({
            "name": failure.op, "aten": failure.aten, "arguments": arguments, "offence": failure.offence,
            "cpu_text": failure.cpu_text,
        })),
        "call_site": found.frames,
        "repro": contents.confirmed.repro.as_ref().map(|one| json!({
            "how": one.how, "cold_runs": one.runs, "failed_the_same_way": one.hits,
        })),
        "origin": words::origin(found, ground),
        "path": contents.explained().path,
        "files_read": found.opened.iter().filter(|opened| !opened.path.ends_with(".py")).map(|opened| &opened.path).collect::<Vec<_>>(),
        "notes": found.notes,
        "recorded": found.environment,
    })
}

/// An argument whose values are one line of text: a block of a line a number is not read by anyone.
fn short(mut argument: Value) -> Value {
    if let Some(values) = argument.get_mut("values") {
        *values = Value::String(values.to_string());
    }
    if let Some(items) = argument.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(|item| *item = short(item.take()));
    }
    argument
}

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
    json!({
        "command": ground.case.command.text,
        "workdir": ground.invocation.workdir,
        "environment_variables": ground.case.setting.env,
        "python": { "version": ground.python.version },
        "torch": ground.python.torch.as_ref().map(|torch| json!({ "version": torch.version, "cuda": torch.cuda })),
        "device": words::device(ground),
        "pins": {
            "launch_blocking": found.pins.launch_blocking, "seed": found.pins.seed,
            "num_workers": found.pins.num_workers, "mode": found.mode, "not_used": found.hidden,
        },
        "as_given": found.as_given,
        "signature": found.signature,
        "failing_operator": failure.map(|failure| json!({
            "name": failure.op, "aten": failure.aten, "arguments": failure.args, "offence": failure.offence,
            "cpu_text": failure.cpu_text,
        })),
        "call_site": found.frames,
        "origin": words::origin(found, ground),
        "path": contents.explained().path,
        "files_read": found.opened.iter().filter(|opened| !opened.path.ends_with(".py")).map(|opened| &opened.path).collect::<Vec<_>>(),
        "notes": found.notes,
        "recorded": found.environment,
    })
}

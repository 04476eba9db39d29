//! What the search stands on is the same whether launches block or not: class, operator and site of a failure.

use std::fs;

use crate::support::{new_python, reduce, run, text};

/// A program, the line of the call that fails, and what fails there.
const PROGRAMS: &[(&str, u32, &str)] = &[
    // Reported at `backward` without blocking launches.
    (
        "import torch\n\
         net = torch.nn.Linear(4, 3).cuda()\n\
         loss = torch.nn.functional.cross_entropy(net(torch.ones(2, 4).cuda()), torch.tensor([1, 3]).cuda())\n\
         loss.backward()\n\
         print(loss.item())\n",
        3,
        "label_out_of_range in torch.nn.functional.cross_entropy",
    ),
    // Reported as a library error.
    (
        "import torch\n\
         table, net = torch.nn.Embedding(4, 8).cuda(), torch.nn.Linear(8, 2).cuda()\n\
         rows = table(torch.tensor([1, 9]).cuda())\n\
         print(net(rows).sum().item())\n",
        3,
        "index_out_of_range in torch.nn.functional.embedding",
    ),
    // Not reported at all: the process ends with status 0 after the assertion.
    (
        "import torch\n\
         table = torch.zeros(4, 2).cuda()\n\
         table[torch.tensor([5]).cuda()] = 1\n",
        3,
        "index_out_of_range in torch.Tensor.__setitem__",
    ),
    // Swallowed where it blocks; passes the handler and surfaces later where it does not.
    (
        "import torch\n\
         x = torch.ones(2, 3).cuda()\n\
         try:\n    \
             y = x.gather(1, torch.tensor([[7]]).cuda())\n\
         except RuntimeError:\n    \
             print('skipped')\n\
         print((x + 1).sum().item())\n",
        4,
        "index_out_of_range in torch.Tensor.gather",
    ),
];

#[test]
fn class_operator_and_site_are_those_of_the_failing_call_whether_launches_block_or_not() {
    for (at, (program, line, failure)) in PROGRAMS.iter().enumerate() {
        // The run as given never blocks; one program goes all the way without.
        for blocking in if at == 0 { ["true", "false"].as_slice() } else { &["true"] } {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("train.py"), program).unwrap();
            let yaml =
                format!("command: python train.py\npython: {}\nlaunch_blocking: {blocking}\n", new_python().display());
            fs::write(folder.path().join("crash.yaml"), yaml).unwrap();
            let output =
                run(reduce().arg("check").arg(folder.path().join("crash.yaml")).args(["--device", "emulated"]));
            let said = text(&output);
            assert_eq!(output.status.code(), Some(0), "{said}");
            let site = format!("site:       train.py:{line} in <module>");
            let pins = format!("launch_blocking {blocking}");
            for words in [&format!("reproduces: {failure}"), &format!("as given:   {failure}"), &site, &pins] {
                assert!(said.contains(words.as_str()), "`{words}` is missing\n{program}\n{said}");
            }
            assert!(!said.contains("not used:"), "a pin was dropped\n{program}\n{said}");
        }
    }
}

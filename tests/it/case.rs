//! What users write: `crash.yaml`, commands, interpreters, flags; and what they are told when it is wrong.

#![expect(clippy::unwrap_used, reason = "what makes a project for a test may end the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use reduce::case::document::{self, Draft};
use reduce::case::{self, Case, Device, Invocation, Pins, Program, Ranks, Resolved, schema};
use reduce::cli::args::{Args, Command, Seed};
use reduce::environment::{self, EnvironmentError, Interpreter, Notice, Requirements, Surroundings, Wanted};
use reduce::exit::ExitCode;
use reduce::process;
use reduce::yaml;

/// A project folder with some files.
struct Project {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        // One level more: a project right in the folder for temporary files would be as wide as that.
        let root = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(&root).unwrap();
        for (name, text) in files {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Project { _folder: folder, root }
    }

    fn case(&self, text: &str) -> Result<Case, yaml::Error> {
        case::parse(text, "crash.yaml", &self.root)
    }

    fn resolve(&self, command: &str) -> Result<Resolved, yaml::Error> {
        let quoted = serde_json::to_string(command).unwrap();
        case::resolve(&self.case(&format!("command: {quoted}\n")).unwrap(), &surroundings())
    }

    fn invocation(&self, command: &str) -> Invocation {
        match self.resolve(command) {
            Ok(Resolved::Static(invocation)) => invocation,
            other => panic!("{command}: {other:?}"),
        }
    }

    /// What the command is taken for, in one line.
    fn shown(&self, command: &str) -> String {
        self.line(&self.invocation(command))
    }

    fn line(&self, invocation: &Invocation) -> String {
        let root = self.root.to_string_lossy().into_owned();
        let env: Vec<String> = invocation.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let unset: Vec<String> = invocation.unset.iter().map(|name| format!("-{name}")).collect();
        let interpreter = match &invocation.interpreter {
            Interpreter::Unnamed => "default".to_owned(),
            Interpreter::Named(name) => name.clone(),
            Interpreter::Path(path) => path.to_string_lossy().into_owned(),
            Interpreter::Project { tool, folder } => format!("{tool}:{}", folder.display()),
        };
        let program = match &invocation.program {
            Program::Script(script) => vec![script.clone()],
            Program::Module(name) => vec!["-m".to_owned(), name.clone()],
        };
        let workdir = if invocation.workdir == "." { Vec::new() } else { vec![format!("({})", invocation.workdir)] };
        let words =
            [workdir, env, unset, vec![interpreter], invocation.options.clone(), program, invocation.argv.clone()]
                .concat();
        words.join(" ").replace(&root, "ROOT")
    }

    fn refusal(&self, command: &str) -> String {
        self.resolve(command).unwrap_err().to_string().replace(&self.root.to_string_lossy().into_owned(), "ROOT")
    }
}

fn surroundings() -> Surroundings {
    Surroundings::default().with(&BTreeMap::from(
        [("PATH", "/usr/bin:/bin"), ("HOME", "/nobody")].map(|(name, value)| (name.to_owned(), value.to_owned())),
    ))
}

fn train() -> Project {
    Project::new(&[("train.py", "print(1)\n"), ("src/model.py", ""), ("data/labels.csv", "a,b\n")])
}

fn refused(text: &str) -> String {
    let error = train().case(text).unwrap_err();
    std::iter::once(error.to_string()).chain(error.hints).collect::<Vec<_>>().join("\n")
}

#[test]
fn only_command_is_required_and_everything_else_has_its_default() {
    let project = train();
    let case = project.case("command: python train.py\n").unwrap();
    assert_eq!(case.command.text, "python train.py");
    assert_eq!(case.command.line, Some(1));
    assert_eq!(case.workdir, project.root);
    assert_eq!(case.setting.python, Wanted::Default);
    assert_eq!(case.setting.pins, Pins { launch_blocking: true, seed: Some(0), num_workers: Some(0) });
    assert_eq!(case.setting.device, Device::Auto);
    assert_eq!(case.setting.gpus, [0]);
    assert!(case.sources.is_none() && case.data.is_none() && case.expect.is_open() && case.jobs.is_none());
    assert_eq!(case.limits.time, Some(Duration::from_secs(1800)));
    assert_eq!(case.limits.runs, Some(2000));
    assert_eq!((case.limits.memory, case.limits.timeout), (None, None));
    assert_eq!(case.strategy, "default");
    assert!(!case.sandbox.network);
}

#[test]
fn every_key_of_a_full_crash_yaml_is_read() {
    let project = train();
    std::fs::create_dir_all(project.root.join(".venv/bin")).unwrap();
    std::fs::write(project.root.join(".venv/bin/python"), "").unwrap();
    let case = project
        .case(
            "command: python train.py --data data --epochs 3   # exactly what was typed\r\n\
             workdir: .\r\n\
             python: .venv/bin/python\r\n\
             sources: [\"**/*.py\"]\r\n\
             data: [data/labels.csv]\r\n\
             keep: [\"configs/**\"]\r\n\
             expect:\r\n  assertion: \"t >= 0 && t < n_classes\"\r\n  kernel: nll\r\n  match: strict\r\n\
             launch_blocking: false\r\n\
             seed: null\r\n\
             num_workers: null\r\n\
             env: {CUBLAS_WORKSPACE_CONFIG: \":4096:8\", N: 3, V: 3.10, B: true}\r\n\
             device: emulated\r\n\
             gpus: [0]\r\n\
             jobs: 4\r\n\
             timeout: 120s\r\n\
             sanitizer: none\r\nstrategy: default\r\nscreen: auto\r\n\
             sandbox: {network: true, write: [data]}\r\n\
             limits: {time: 45m, runs: 12, memory: 16GiB}\r\n\
             gpus_per_trial: 1\r\ncluster: null\r\n",
        )
        .unwrap();
    assert_eq!(case.setting.python, Wanted::Path(project.root.join(".venv/bin/python")));
    let sources = case.sources.unwrap();
    assert!(
        sources.matches(&project.root.join("src/model.py")) && !sources.matches(&project.root.join("data/labels.csv"))
    );
    assert_eq!(sources.files(), [project.root.join("src/model.py"), project.root.join("train.py")]);
    assert!(case.keep.matches(&project.root.join("configs/deep/a.yaml")));
    assert_eq!(case.expect.assertion.as_deref(), Some("t >= 0 && t < n_classes"));
    assert_eq!(case.setting.pins, Pins { launch_blocking: false, seed: None, num_workers: None });
    let env: Vec<(&str, &str)> = case.setting.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("B", "true"), ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), ("N", "3"), ("V", "3.10")]);
    assert_eq!(case.limits.memory, Some(16 << 30));
    assert_eq!(case.limits.timeout, Some(Duration::from_secs(120)));
    assert_eq!(case.sandbox.write, [project.root.join("data")]);
    assert_eq!(case.jobs, Some(4));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one_and_all_that_is_accepted() {
    let shown = refused("command: python train.py\n\nlaunch_blockin: true\n");
    let (first, second) = shown.split_once('\n').unwrap();
    assert_eq!(first, "crash.yaml:3: launch_blockin: unknown key; did you mean `launch_blocking`?");
    assert!(second.starts_with("accepted: command, workdir, python, sources, "), "{second}");
    assert_eq!(
        refused("command: python train.py\nlimits:\n  time: 3m\n  Runs: 3\n"),
        "crash.yaml:4: limits.Runs: unknown key; did you mean `runs`?\naccepted: time, runs, memory"
    );
    assert!(refused("command: python train.py\nzzz: 1\n").starts_with("crash.yaml:2: zzz: unknown key\naccepted: "));
}

#[test]
fn a_wrong_value_is_refused_with_line_key_and_what_is_accepted() {
    let cases = [
        ("launch_blocking: yes", "crash.yaml:2: launch_blocking: expected true or false, found \"yes\""),
        ("seed: -1", "crash.yaml:2: seed: expected a whole number from 0 to 4294967295 or null, found the number -1"),
        ("num_workers: 2", "crash.yaml:2: num_workers: expected 0 or null, found the number 2"),
        ("device: gpu", "crash.yaml:2: device: expected auto, cuda or emulated, found \"gpu\""),
        ("jobs: many", "crash.yaml:2: jobs: expected auto or a whole number from 1 to 1024, found \"many\""),
        ("jobs: 0", "crash.yaml:2: jobs: expected auto or a whole number from 1 to 1024, found the number 0"),
        ("timeout: soon", "crash.yaml:2: timeout: expected a duration such as 120s, 30m or 2h or null, found \"soon\""),
        (
            "limits: {memory: 16}",
            "crash.yaml:2: limits.memory: expected a size such as 512MiB or 16GiB or null, found the number 16",
        ),
        (
            "limits: {runs: 0}",
            "crash.yaml:2: limits.runs: expected a whole number, 1 or more or null, found the number 0",
        ),
        ("env: [A=1]", "crash.yaml:2: env: expected a mapping of names to strings, found a list"),
        ("env: {A: null}", "crash.yaml:2: env.A: expected a string, found null\nan empty variable is \"\""),
        (
            "sources: train.py",
            "crash.yaml:2: sources: expected a list of paths and glob patterns or null, found \"train.py\"",
        ),
        ("sources: [train.py,\n  [x]]", "crash.yaml:3: sources[1]: expected a path or glob pattern, found a list"),
        ("expect: nll", "crash.yaml:2: expect: expected a mapping with assertion, kernel, match, found \"nll\""),
        ("expect: {match: exact}", "crash.yaml:2: expect.match: expected strict, normal or loose, found \"exact\""),
        (
            "python: [a]",
            "crash.yaml:2: python: expected a path, a mapping with version, requirements or null, found a list",
        ),
        (
            "python: {requirements: torch}",
            "crash.yaml:2: python.requirements: expected a list of strings, found \"torch\"",
        ),
        ("python: {version: \"3.11\"}", "crash.yaml:2: python.requirements: missing; it is required"),
        (
            "python: {version: 3.10, requirements: []}",
            "crash.yaml:2: python.version: expected a string, found the number 3.10\nput it in quotes: \"3.10\"",
        ),
        (
            "python: {version: new, requirements: []}",
            "crash.yaml:2: python.version: expected a version such as \"3.11\", found \"new\"",
        ),
        ("command: x", "crash.yaml:2: command: given twice"),
        ("workdir: !x y", "crash.yaml:2: workdir: tags (`!name`) are not accepted"),
        ("workdir: ''", "crash.yaml:2: workdir: expected a path, found \"\""),
    ];
    for (line, message) in cases {
        let shown = refused(&format!("command: python train.py\n{line}\n"));
        assert!(shown == message || shown.starts_with(&format!("{message}\ndid you mean")), "{line}\n{shown}");
    }
    assert_eq!(
        refused("command: 3\n"),
        "crash.yaml:1: command: expected a string, found the number 3\nput it in quotes: \"3\""
    );
    assert_eq!(refused("command: [python, x.py]\n"), "crash.yaml:1: command: expected a string, found a list");
    assert_eq!(refused("workdir: .\n"), "crash.yaml: command: missing; it is required");
}

#[test]
fn a_file_that_is_empty_or_no_yaml_or_no_mapping_is_refused() {
    for text in ["", "\n\n", "# nothing\n", "---\n", "null\n"] {
        assert_eq!(refused(text), "crash.yaml: is empty", "{text:?}");
    }
    assert!(refused("command: \"python\nx: [1\n").starts_with("crash.yaml:"));
    assert!(refused("a: [1\n").contains(": not valid YAML: "), "{}", refused("a: [1\n"));
    assert!(refused("command: a: b\n").starts_with("crash.yaml:1: not valid YAML: "), "{}", refused("command: a: b\n"));
    assert_eq!(refused("- command\n"), "crash.yaml:1: expected a mapping, found a list");
    assert_eq!(refused("python x.py\n"), "crash.yaml:1: expected a mapping, found \"python x.py\"");
    assert_eq!(refused("command: a\n---\ncommand: b\n"), "crash.yaml: more than one document (`---`) in the file");
    assert!(refused("\u{1}\u{2}\n").starts_with("crash.yaml"));
    let deep = format!("command: {}", "[".repeat(5000));
    assert!(refused(&deep).starts_with("crash.yaml"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let project = train();
    let missing = project.root.join("no.yaml");
    assert_eq!(case::read(&missing).unwrap_err().to_string(), format!("{}: no such file", missing.display()));
    assert_eq!(
        case::read(&project.root).unwrap_err().to_string(),
        format!("{}: is a folder, not a file", project.root.display())
    );
    let latin = project.root.join("latin.yaml");
    std::fs::write(&latin, b"command: python train.py\n# caf\xe9\n").unwrap();
    assert_eq!(case::read(&latin).unwrap_err().to_string(), format!("{}:2: not UTF-8 text", latin.display()));
    let bom = project.root.join("bom.yaml");
    std::fs::write(&bom, "\u{feff}command: python train.py\n").unwrap();
    assert_eq!(case::read(&bom).unwrap().command.text, "python train.py");
}

#[test]
fn a_missing_file_is_refused_with_the_line_and_key_that_name_it() {
    let project = train();
    let first = |text: &str| project.case(text).unwrap_err().to_string();
    assert_eq!(
        first("command: python train.py\nsources:\n  - train.py\n  - tain.py\n"),
        "crash.yaml:4: sources[1]: no such file: tain.py"
    );
    assert_eq!(first("command: python train.py\ndata: [\"*.npy\"]\n"), "crash.yaml:2: data[0]: matches no file: *.npy");
    assert_eq!(first("command: python train.py\nworkdir: nowhere\n"), "crash.yaml:2: workdir: no such folder: nowhere");
    assert_eq!(first("command: python train.py\nworkdir: train.py\n"), "crash.yaml:2: workdir: not a folder: train.py");
    assert_eq!(
        first("command: python train.py\npython: .venv/bin/python\n"),
        "crash.yaml:2: python: no such interpreter: .venv/bin/python"
    );
    assert_eq!(
        first("command: python train.py\nsandbox: {write: [/no/such]}\n"),
        "crash.yaml:2: sandbox.write[0]: no such file or folder: /no/such"
    );
    assert_eq!(
        first("command: python train.py\nkeep: [\"a[\"]\n").split("pattern").next().unwrap(),
        "crash.yaml:2: keep[0]: not a glob "
    );
    assert_eq!(project.refusal("python tain.py"), "crash.yaml:1: command: no such file: tain.py");
    assert_eq!(project.refusal("bash run.sh"), "crash.yaml:1: command: no such file: run.sh");
}

#[test]
fn keys_of_later_versions_are_checked_and_said_to_be_unsupported() {
    let cases = [
        (
            "sanitizer: memcheck",
            "crash.yaml:2: sanitizer: `memcheck` is not supported in this version\nsupported: none",
        ),
        ("gpus: [0, 1]", "crash.yaml:2: gpus: this value is not supported in this version\nsupported: [0]"),
        (
            "screen: emulated",
            "crash.yaml:2: screen: `emulated` is not supported in this version\nsupported: auto or none",
        ),
        ("gpus_per_trial: 2", "crash.yaml:2: gpus_per_trial: `2` is not supported in this version\nsupported: 1"),
        ("cluster: slurm", "crash.yaml:2: cluster: `slurm` is not supported in this version\nsupported: null"),
        (
            "sanitizer: valgrind",
            "crash.yaml:2: sanitizer: expected none, memcheck, racecheck, initcheck or synccheck, found \"valgrind\"",
        ),
    ];
    for (line, message) in cases {
        assert_eq!(refused(&format!("command: python train.py\n{line}\n")), message);
    }
}

#[test]
fn python_commands_of_every_usual_form_are_understood() {
    let project = Project::new(&[("train.py", ""), ("src/run.py", ""), ("scripts/x.py", "")]);
    let cases = [
        ("python train.py --lr 0.1", "python train.py --lr 0.1"),
        ("python3 train.py 'a b' \"c d\"", "python3 train.py a b c d"),
        ("python -u -m pkg.mod --x 1", "python -u -m pkg.mod --x 1"),
        ("python -um pkg.mod", "python -u -m pkg.mod"),
        (
            "python -O -W ignore -Xdev -X importtime train.py -c 3",
            "python -O -W ignore -X dev -X importtime train.py -c 3",
        ),
        ("python3.11 ./train.py", "python3.11 ./train.py"),
        ("/opt/x/bin/python train.py", "/opt/x/bin/python train.py"),
        ("bin/python3 train.py", "ROOT/bin/python3 train.py"),
        ("LR=1 B='x y' python train.py", "B=x y LR=1 python train.py"),
        ("env -u LANG A=1 python train.py", "A=1 -LANG python train.py"),
        (
            "CUDA_VISIBLE_DEVICES=0 nohup nice -n 5 time timeout -k 3 60 stdbuf -oL python train.py",
            "CUDA_VISIBLE_DEVICES=0 python train.py",
        ),
        ("cd src && python run.py", "(src) python run.py"),
        ("cd src; python ../scripts/x.py", "(src) python ../scripts/x.py"),
        ("export A=1; B=2; python train.py $A $B \"$C\" ${D:-d e}", "A=1 python train.py 1 2  d e"),
        ("python train.py 2>&1 | tee log.txt", "python train.py"),
        ("python train.py > out.log 2>err.log &", "python train.py"),
        ("python a.py || exit 1; exec python train.py", "python train.py"),
        ("python train.py \\\n  --a 1 \\\n  --b 2  # note", "python train.py --a 1 --b 2"),
        ("python train.py ~/data model.layers=[1,2] 'x*'", "python train.py /nobody/data model.layers=[1,2] x*"),
        ("python train.py *.py", "python train.py train.py"),
        ("uv run train.py --x", "uv:ROOT train.py --x"),
        ("uv run --frozen --extra cuda python -u train.py", "uv:ROOT -u train.py"),
        ("uv run --directory src -- python run.py", "(src) uv:ROOT/src run.py"),
        ("uv run -m pkg.mod a", "uv:ROOT -m pkg.mod a"),
        ("poetry run python train.py", "poetry:ROOT train.py"),
        ("sh -c 'A=1 python train.py \"$1\"' zero one", "A=1 python train.py one"),
    ];
    for (command, shown) in cases {
        assert_eq!(project.shown(command), shown, "{command}");
    }
    assert_eq!(project.invocation("cd src && python ../train.py").project, project.root);
}

#[test]
fn launchers_give_the_environment_of_the_only_rank() {
    let project = Project::new(&[
        ("train.py", "parser.add_argument('--local_rank')"),
        ("new.py", "parser.add_argument('--local-rank')"),
        ("acc.yaml", "mixed_precision: bf16\nnum_processes: 4\n"),
    ]);
    let one = project.invocation("torchrun --nproc-per-node=1 train.py --lr 1");
    assert_eq!(
        (one.program, one.argv, one.ranks),
        (Program::Script("train.py".to_owned()), vec!["--lr".to_owned(), "1".to_owned()], Some(Ranks::Count(1)))
    );
    for (name, value) in [
        ("RANK", "0"),
        ("LOCAL_RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("LOCAL_WORLD_SIZE", "1"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "29500"),
    ] {
        assert_eq!(one.env.get(name).map(String::as_str), Some(value), "{name}");
    }
    let many = project.invocation(
        "MASTER_PORT=1234 python -m torch.distributed.run --standalone --nproc_per_node 8 --rdzv-id 3 train.py",
    );
    assert_eq!(
        (many.ranks, many.env["MASTER_PORT"].as_str(), many.env["WORLD_SIZE"].as_str()),
        (Some(Ranks::Count(8)), "1234", "1")
    );
    assert_eq!(many.interpreter, Interpreter::Named("python".to_owned()));
    assert_eq!(project.invocation("torchrun --nproc-per-node gpu -m pkg.train").ranks, Some(Ranks::EachDevice));
    assert_eq!(project.invocation("torchrun --no-python python -u train.py").options, ["-u"]);
    assert_eq!(
        project.invocation("python -m torch.distributed.launch --nproc_per_node=2 train.py a").argv,
        ["--local_rank=0", "a"]
    );
    assert_eq!(project.invocation("python -m torch.distributed.launch new.py").argv, ["--local-rank=0"]);
    assert_eq!(project.invocation("python -m torch.distributed.launch --use-env new.py a").argv, ["a"]);
    let accelerate =
        project.invocation("accelerate launch --multi_gpu --config_file acc.yaml --num_machines 1 train.py --x");
    assert_eq!((accelerate.argv, accelerate.ranks), (vec!["--x".to_owned()], Some(Ranks::Count(4))));
    assert_eq!(accelerate.env["ACCELERATE_MIXED_PRECISION"], "bf16");
    assert!(!accelerate.env.contains_key("RANK"));
    assert_eq!(
        project.invocation("uv run torchrun --nproc-per-node=1 train.py").interpreter,
        Interpreter::Project { tool: "uv", folder: project.root.clone() }
    );
}

#[test]
fn shell_scripts_are_followed_to_their_last_python_program() {
    let project = Project::new(&[
        ("train.py", ""),
        ("prep.py", ""),
        ("sub/deep.py", ""),
        (
            "train.sh",
            "#!/bin/bash\nset -euo pipefail\n# settings\nLR=${LR:-0.1}\nexport OMP_NUM_THREADS=4\nDATA=\"$(pwd)/data set\"\n\
             mkdir -p out && echo start > out/log\npython prep.py --data \"$DATA\" || exit 1\n\
             cat <<EOF > out/c.yaml\nif this: (were shell)\nEOF\n\
             CUDA_VISIBLE_DEVICES=0 python -u train.py \\\n    --lr $LR \\\n    --data \"$DATA\" \\\n    \"$@\" 2>&1 | tee out/train.log\necho done\n",
        ),
        ("sub/own.sh", "cd \"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nbash ./inner.sh \"$1\" x\n"),
        ("sub/inner.sh", "exec python deep.py $2 $1\n"),
        ("active.sh", "source envs/a/bin/activate\npython train.py\n"),
        ("envs/a/bin/activate", ""),
        ("envs/a/bin/python", "#!/bin/sh\n"),
        ("loop.sh", "for i in 1 2; do\n  python train.py --seed $i\ndone\n"),
        ("none.sh", "echo hello\nmake all\n"),
        ("train", "#!/usr/bin/env -S python3 -u\nprint(1)\n"),
        ("bare.py", "print(1)\n"),
        ("x.sh", "#!/bin/sh\npython train.py $#\n"),
    ]);
    let long = "CUDA_VISIBLE_DEVICES=0 OMP_NUM_THREADS=4 python -u train.py --lr 0.1 --data ROOT/data set --epochs 3";
    assert_eq!(project.shown("bash train.sh --epochs 3"), long);
    assert_eq!(project.shown("./train.sh --epochs 3"), long);
    assert_eq!(
        project.shown("LR=5 bash -x train.sh"),
        "CUDA_VISIBLE_DEVICES=0 LR=5 OMP_NUM_THREADS=4 python -u train.py --lr 5 --data ROOT/data set"
    );
    assert_eq!(project.shown("bash sub/own.sh 'a b'"), "(sub) python deep.py x a b");
    assert_eq!(project.shown("./x.sh a 'b c'"), "python train.py 2");
    assert_eq!(
        project.invocation("bash active.sh").interpreter,
        Interpreter::Path(project.root.join("envs/a/bin/python"))
    );
    assert_eq!(project.shown("./train --x"), "python3 -u ./train --x");
    assert_eq!(
        project.refusal("./bare.py"),
        "crash.yaml:1: command: ./bare.py has no `#!` line, so that a shell would not start Python"
    );
    assert_eq!(project.refusal("bash none.sh"), "crash.yaml:1: command: not a Python command: `bash none.sh`");
    match project.resolve("bash loop.sh").unwrap() {
        Resolved::Spy(spy) => assert_eq!(spy.reason, "loop.sh line 1: `for`"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_that_are_not_python_are_refused_with_the_reason() {
    let project = Project::new(&[("train.py", ""), ("pkg/__main__.py", "")]);
    let cases = [
        ("make train", "not a Python command: `make train`"),
        ("./a.out", "no such file: ./a.out"),
        ("python", "`python` names no program to run"),
        ("python -c 'print(1)'", "`python -c` holds its program in the command"),
        ("python - < train.py", "the program is read from standard input"),
        ("python train.py < data.txt", "the program is read from standard input"),
        ("python --version", "`python --version` runs no program of yours"),
        ("python -m pip install x", "`python -m pip` runs no program of yours"),
        ("python pkg", "pkg is a folder, not a Python file"),
        ("python 'train.py", "`'` is not closed"),
        ("srun -n 1 python train.py", "`srun` starts its program in a way that is not understood"),
        ("torchrun --nproc-per-node 2", "`torchrun` names no program to run"),
        ("uv run --with numpy train.py", "`uv run --with` gives the program an environment of its own"),
        ("uv sync", "not a Python command: `uv sync`"),
        ("python /etc/hostname", "/etc/hostname lies outside of the project"),
        ("&&", "not a Python command: `&&`"),
    ];
    for (command, message) in cases {
        assert_eq!(project.refusal(command), format!("crash.yaml:1: command: {message}"), "{command}");
    }
    let error = project.resolve("make train").unwrap_err();
    assert!(error.hints[0].starts_with("accepted: python FILE, python -m MODULE, torchrun, "));
}

#[test]
fn no_text_makes_reading_panic() {
    let project = Project::new(&[("a.sh", "python x.py\n"), ("x.py", "")]);
    let pieces = [
        "python",
        "x.py",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "$",
        "${",
        "}",
        "$(",
        ")",
        "(",
        "|",
        "&",
        ";",
        "<",
        ">",
        "<<",
        "-",
        "--",
        "=",
        "~",
        "*",
        "[",
        "]",
        "{",
        ",",
        "#",
        "é",
        "\u{0}",
        "A=1",
        "-m",
        "-c",
        "bash",
        "a.sh",
        "env",
        "uv",
        "run",
        "torchrun",
        "cd",
        "..",
        "/",
        "@",
        "1",
        ":-",
        "command: ",
        "- ",
        "&a ",
        "*a",
        "!",
        "\t",
    ];
    // A fixed walk: the same texts each time.
    let mut state = 12345_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..4000 {
        let length = 1 + next() % 12;
        let text: String = (0..length).map(|_| pieces[next() % pieces.len()]).collect();
        let _ = case::parse(&text, "crash.yaml", &project.root);
        if let Ok(case) = project.case(&format!("command: {}", serde_json::to_string(&text).unwrap())) {
            let _ = case::resolve(&case, &surroundings());
        }
    }
}

#[test]
fn a_script_that_only_running_tells_is_run_with_stand_ins_for_python() {
    let python = test_python();
    let project = Project::new(&[
        ("train.py", "open('ran', 'w')\n"),
        ("sub/x.py", ""),
        (
            "loop.sh",
            "if [ -d . ]; then N=$(python3 -c 'print(1 + 1)'); fi\nexport MODE=\"a b\"\nunset GONE\nfor seed in 1 $N; do\n  python train.py --seed $seed 'x y'\ndone\n",
        ),
        ("path.sh", "for i in 1; do (cd sub; \"$PY\" -u x.py $i); done\n"),
        ("dist.sh", "if true; then torchrun --nproc-per-node=2 train.py; fi\n"),
        ("quiet.sh", "if true; then python3 --version; fi\n"),
    ]);
    let mut surroundings = surroundings();
    surroundings.vars.insert("GONE".to_owned(), "1".to_owned());
    let spied = |name: &str| {
        let text = format!("command: bash {name}\nenv: {{PY: {}}}\n", python.display());
        let case = project.case(&text).unwrap();
        let Resolved::Spy(spy) = case::resolve(&case, &surroundings).unwrap() else { panic!("{name} was read") };
        let folder = tempfile::tempdir().unwrap();
        let mut spawn = spy.prepare(folder.path(), &surroundings).unwrap();
        spawn.unset = std::env::vars().map(|(name, _)| name).filter(|name| name != "PATH").collect();
        spawn.env.extend(
            surroundings
                .vars
                .iter()
                .filter(|(name, _)| *name != "PATH")
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        let output = process::run(&spawn, Duration::from_secs(60)).unwrap();
        assert_eq!(output.end, process::End::Exited(0), "{}", output.stderr);
        spy.read(folder.path(), &case, &surroundings)
    };
    assert_eq!(project.line(&spied("loop.sh").unwrap()), "MODE=a b -GONE python train.py --seed 2 x y");
    let by_path = spied("path.sh").unwrap();
    assert_eq!(
        (by_path.workdir.as_str(), &by_path.program, by_path.argv.as_slice()),
        ("sub", &Program::Script("x.py".to_owned()), ["1".to_owned()].as_slice())
    );
    assert_eq!(by_path.options, ["-u"]);
    let ranks = spied("dist.sh").unwrap();
    assert_eq!((ranks.ranks, ranks.env["WORLD_SIZE"].as_str()), (Some(Ranks::Count(2)), "1"));
    assert_eq!(
        spied("quiet.sh").unwrap_err().to_string(),
        "crash.yaml:1: command: not a Python command: `bash quiet.sh`"
    );
    assert!(!project.root.join("ran").exists(), "a stand-in ran the program");
}

/// An interpreter to try things with; the tests need one.
fn test_python() -> PathBuf {
    let home = std::env::var("HOME").unwrap_or_default();
    std::env::var("REDUCE_TEST_PYTHON")
        .map_or_else(|_| Path::new(&home).join(".cache/reduce/test/torch-2.11.0/bin/python"), PathBuf::from)
}

fn find(
    wanted: &Wanted,
    named: &Interpreter,
    surroundings: &Surroundings,
) -> Result<environment::Python, EnvironmentError> {
    environment::find(wanted, named, Path::new("/"), surroundings, &mut |_| {})
}

#[test]
fn an_interpreter_tells_its_version_and_its_torch_without_importing_it() {
    let python = find(&Wanted::Path(test_python()), &Interpreter::Unnamed, &surroundings()).unwrap();
    assert_eq!(python.executable, test_python());
    assert!(python.version.starts_with("3."));
    assert!(environment::require_torch(&python).unwrap().version.starts_with(|c: char| c.is_ascii_digit()));
}

#[test]
fn the_interpreter_is_the_one_that_case_command_or_activation_name_in_this_order() {
    let prefix = test_python().parent().unwrap().parent().unwrap().to_path_buf();
    let mut active = surroundings();
    active.vars.insert("VIRTUAL_ENV".to_owned(), prefix.to_string_lossy().into_owned());
    let named = |name: &str| Interpreter::Named(name.to_owned());
    assert_eq!(find(&Wanted::Default, &Interpreter::Unnamed, &active).unwrap().prefix, prefix);
    assert_eq!(find(&Wanted::Default, &named("python"), &active).unwrap().prefix, prefix);
    assert_eq!(find(&Wanted::Default, &Interpreter::Path(test_python()), &surroundings()).unwrap().prefix, prefix);
    assert_ne!(find(&Wanted::Default, &Interpreter::Unnamed, &surroundings()).unwrap().prefix, prefix);
    let project = Project::new(&[("pyproject.toml", ""), ("sub/x.py", "")]);
    let uv = Interpreter::Project { tool: "uv", folder: project.root.join("sub") };
    let error = find(&Wanted::Default, &uv, &surroundings()).unwrap_err();
    assert!(error.to_string().starts_with("no interpreter: `uv run` has no environment for "), "{error}");
    std::os::unix::fs::symlink(&prefix, project.root.join(".venv")).unwrap();
    assert_eq!(find(&Wanted::Default, &uv, &surroundings()).unwrap().executable, project.root.join(".venv/bin/python"));
}

#[test]
fn no_interpreter_or_no_torch_says_how_to_name_one() {
    let nowhere = Surroundings::default().with(&BTreeMap::from([("PATH".to_owned(), "/nowhere".to_owned())]));
    let error = find(&Wanted::Default, &Interpreter::Unnamed, &nowhere).unwrap_err();
    assert_eq!(error.to_string(), "no interpreter: no active virtual environment, and no python3 on PATH");
    assert_eq!(error.hints()[0], "name an interpreter in crash.yaml: `python: path/to/bin/python`");
    let error = find(&Wanted::Default, &Interpreter::Named("python3.99".to_owned()), &nowhere).unwrap_err();
    assert_eq!(error.to_string(), "no interpreter: the command names `python3.99`, which is not on PATH");
    let error = find(&Wanted::Path(PathBuf::from("/bin/true")), &Interpreter::Unnamed, &nowhere).unwrap_err();
    assert_eq!(error.to_string(), "/bin/true does not answer: it is no Python interpreter");
    let bare = environment::Python {
        executable: PathBuf::from("/x/python"),
        version: "3.11.7".to_owned(),
        prefix: PathBuf::new(),
        torch: None,
        numpy: None,
    };
    let error = environment::require_torch(&bare).unwrap_err();
    assert_eq!(error.to_string(), "/x/python has no torch");
    assert!(error.hints().iter().any(|hint| hint.contains("requirements: [torch==")), "{:?}", error.hints());
}

#[test]
fn an_environment_is_made_once_and_a_half_made_one_is_never_used() {
    let cache = tempfile::tempdir().unwrap();
    let mut here = Surroundings::new(std::env::vars_os());
    here.vars.insert("REDUCE_CACHE_DIR".to_owned(), cache.path().to_string_lossy().into_owned());
    // Without uv, which is not everywhere; and without the environment that the tests may run in.
    here.vars.remove("VIRTUAL_ENV");
    let folders: Vec<&str> =
        here.vars["PATH"].split(':').filter(|folder| !Path::new(folder).join("uv").exists()).collect();
    let path = folders.join(":");
    here.vars.insert("PATH".to_owned(), path);
    let wanted = Wanted::Made(Requirements { version: None, packages: Vec::new() });
    let make = |notices: &mut Vec<Notice>| {
        environment::find(&wanted, &Interpreter::Unnamed, Path::new("/"), &here, &mut |notice| notices.push(notice))
            .unwrap()
    };
    // Two runs at once: one makes it, the other waits.
    let (first, mut notices) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut notices = Vec::new();
            (make(&mut notices), notices)
        });
        let mut notices = Vec::new();
        let first = make(&mut notices);
        let (second, others) = other.join().unwrap();
        assert_eq!(first, second);
        notices.extend(others);
        (first, notices)
    });
    notices.retain(|notice| matches!(notice, Notice::Making { .. }));
    let [Notice::Making { folder, by: "pip" }] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(first.executable.starts_with(cache.path()) && first.prefix == *folder && first.torch.is_none());
    let folder = folder.clone();
    notices.clear();
    assert_eq!(make(&mut notices), first);
    assert_eq!(notices, []);
    // As a kill half-way leaves it.
    std::fs::remove_file(folder.join("made")).unwrap();
    std::fs::write(folder.join("left-over"), "").unwrap();
    make(&mut notices);
    assert_eq!(notices.len(), 1);
    assert!(!folder.join("left-over").exists() && folder.join("made").is_file());

    let wrong = Wanted::Made(Requirements { version: Some("2.6".to_owned()), packages: Vec::new() });
    let error = find(&wrong, &Interpreter::Unnamed, &here).unwrap_err();
    assert_eq!(error.to_string(), "no interpreter: Python 2.6 is not installed (with uv on PATH it would be fetched)");
}

#[test]
fn a_package_that_cannot_be_installed_leaves_no_environment() {
    let cache = tempfile::tempdir().unwrap();
    let mut here = Surroundings::new(std::env::vars_os());
    here.vars.insert("REDUCE_CACHE_DIR".to_owned(), cache.path().to_string_lossy().into_owned());
    // A file that is no package: refused at once, without a network.
    let package = format!("{}/nothing-1.0-py3-none-any.whl", cache.path().display());
    let wanted = Wanted::Made(Requirements { version: None, packages: vec![package] });
    let error = find(&wanted, &Interpreter::Unnamed, &here).unwrap_err();
    assert!(error.to_string().starts_with("cannot make the environment: "), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(cache.path().join("environments")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".lock")), "{left:?}");
}

fn parse(words: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(std::iter::once("reduce").chain(words.split_whitespace()))
}

#[test]
fn a_case_needs_no_sub_command_and_a_command_stands_behind_two_dashes() {
    let args = parse("crash.yaml -j 4 --device emulated --timeout 90s --seed none --match strict --limit-time 1h --resume --certify sinks --json").unwrap();
    let reduce = &args.reduce;
    assert!(args.command.is_none() && reduce.resume && reduce.output.json);
    assert_eq!(reduce.case.as_deref(), Some(Path::new("crash.yaml")));
    assert_eq!(
        (reduce.running.jobs, reduce.running.device, reduce.running.seed),
        (Some(4), Some(Device::Emulated), Some(Seed::Untouched))
    );
    let mut case = train().case("command: python train.py\nseed: 3\nlimits: {time: 5m}\n").unwrap();
    reduce.apply(&mut case);
    assert_eq!((case.setting.pins.seed, case.setting.device, case.jobs), (None, Device::Emulated, Some(4)));
    assert_eq!(
        (case.limits.time, case.limits.timeout),
        (Some(Duration::from_secs(3600)), Some(Duration::from_secs(90)))
    );
    let args = parse("--out x -- python train.py --lr 0.1").unwrap();
    assert_eq!(args.reduce.typed, ["python", "train.py", "--lr", "0.1"]);
    assert!(matches!(parse("check crash.yaml -q").unwrap().command, Some(Command::Check(check)) if check.output.quiet));
    assert!(
        matches!(parse("init --force -- python x.py").unwrap().command, Some(Command::Init(init)) if init.typed == ["python", "x.py"])
    );
    for words in [
        "replay crash.reduced --device cuda",
        "corpus list",
        "corpus run -j 2 x",
        "corpus add crash.reduced",
        "schema",
        "completions bash",
        "man",
        "strategies",
        "strategies default",
    ] {
        assert!(parse(words).unwrap().command.is_some(), "{words}");
    }
}

#[test]
fn wrong_usage_is_refused_with_what_was_meant() {
    let message = |words: &str| parse(words).unwrap_err().to_string();
    assert!(
        message("crash.yaml --devise cuda").contains("a similar argument exists: '--device'"),
        "{}",
        message("crash.yaml --devise cuda")
    );
    assert!(message("crash.yaml --timeout soon").contains("expected a duration such as 120s, 30m or 2h"));
    assert!(message("crash.yaml --device gpu").contains("[possible values: auto, cuda, emulated]"));
    assert!(message("crash.yaml --limit-runs 0").contains("expected a whole number, 1 or more"));
    assert!(message("crash.yaml --seed x").contains("or none"));
    assert!(message("crash.yaml -j 0").contains("0 is not in 1..=1024"));
    assert!(message("crash.yaml --resume --force").contains("cannot be used with"));
    assert!(message("crash.yaml -q -v").contains("cannot be used with"));
    assert!(message("crash.yaml -- python x.py").contains("cannot be used with"));
    assert!(message("--resume").contains("required"), "{}", message("--resume"));
    assert_eq!(parse("crash.yaml --nope").unwrap_err().exit_code(), i32::from(ExitCode::Usage.number()));
    assert_eq!(reduce::cli::args::meant_command("chek").as_deref(), Some("check"));
    assert_eq!(reduce::cli::args::meant_command("crash.yaml"), None);
    Args::parser().debug_assert();
}

#[test]
fn help_names_no_command_that_does_not_exist_yet() {
    let help = Args::parser().render_long_help().to_string();
    assert!(!help.contains("cluster"), "{help}");
}

fn document(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    (path, text)
}

#[test]
fn the_document_of_crash_yaml_is_what_the_table_of_keys_says() {
    let (path, text) = document("crash-yaml.md");
    let wanted = document::markdown();
    if std::env::var_os("REDUCE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else {
        assert_eq!(text, wanted, "{} is old: run the tests once with REDUCE_UPDATE_DOCS=1", path.display());
    }
}

#[test]
fn the_document_of_exit_codes_is_what_the_program_returns() {
    let (_, text) = document("exit-codes.md");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).collect();
    let wanted: Vec<String> =
        ExitCode::ALL.iter().map(|code| format!("| {} | {} |", code.number(), code.meaning())).collect();
    assert_eq!(rows, wanted);
}

#[test]
fn the_schema_names_every_key_and_refuses_others() {
    let schema = schema::json_schema();
    let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), schema::KEYS.len());
    assert_eq!(schema["required"], serde_json::json!(["command"]));
    assert_eq!(schema["additionalProperties"], serde_json::json!(false));
    assert_eq!(schema["properties"]["device"]["enum"], serde_json::json!(["auto", "cuda", "emulated"]));
    assert_eq!(schema["properties"]["limits"]["properties"]["time"]["default"], serde_json::json!("30m"));
    assert_eq!(schema["properties"]["seed"]["default"], serde_json::json!(0));
}

#[test]
fn the_crash_yaml_that_init_writes_is_valid_and_means_what_was_typed() {
    let draft = Draft {
        python: None,
        assertion: Some("t >= 0 && t < n_classes".to_owned()),
        kernel: Some("nll_loss_forward_reduce_cuda_kernel_2d".to_owned()),
        ..Draft::of_words(&["python", "train.py", "--note", "a # b: \"c\""].map(str::to_owned))
    };
    let project = train();
    let case = project.case(&draft.text()).unwrap();
    let Resolved::Static(invocation) = case::resolve(&case, &surroundings()).unwrap() else { panic!() };
    assert_eq!(invocation.argv, ["--note", "a # b: \"c\""]);
    assert_eq!(case.expect.assertion, draft.assertion);
    assert_eq!(case.expect.kernel, draft.kernel);
    // Every commented key is valid as it stands.
    let shown = Draft::of_words(&["python train.py".to_owned()]).text();
    let open: String = shown
        .lines()
        .map(|line| match line.strip_prefix("# ").and_then(|rest| rest.split_once(':')) {
            Some((name, _)) if schema::KEYS.iter().any(|key| key.name == name) => format!("{}\n", &line[2..]),
            _ => format!("{line}\n"),
        })
        .collect();
    project.case(&open).unwrap();
}

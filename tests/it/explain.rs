//! `reduce explain` on logs: every recorded log, every format, and logs that are too large to hold.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reduce::explain::{self, Digest, Explanation, RemarkKind};
use reduce::signature::{Catalog, Family, Stack};
use serde_json::Value;

use crate::signature::{Expected, expected, logs, processor_time};
use crate::support::{REDUCE, text};

const NLL: &str = "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.";

fn explain(log: &[u8]) -> Option<Explanation> {
    let mut digest = Digest::default();
    digest.add("log", log).unwrap();
    explain::explain(&digest)
}

fn explained(log: &str) -> Explanation {
    explain(log.as_bytes()).unwrap_or_else(|| panic!("nothing found in {log}"))
}

fn says(explanation: &Explanation, kind: RemarkKind, words: &str) {
    let found = explanation.remarks.iter().any(|remark| remark.kind == kind && remark.text.contains(words));
    assert!(found, "no {kind:?} with `{words}` in {:#?}", explanation.remarks);
}

#[test]
fn every_recorded_log_is_explained_in_under_twenty_milliseconds() {
    // Patterns are compiled at their first use.
    explained(NLL);
    assert!(explain(b"RuntimeError: nothing of a device\n").is_none());
    for (name, wanted) in expected() {
        let log = fs::read(logs().join(&name)).unwrap();
        let before = processor_time();
        let found = explain(&log);
        let shown = found.as_ref().map(ToString::to_string).unwrap_or_default();
        let spent = processor_time() - before;
        assert!(spent < Duration::from_millis(20), "{name}: {spent:?}");
        let Expected::Failure(wanted) = wanted else {
            assert!(found.is_none(), "{name}");
            continue;
        };
        let found = found.unwrap_or_else(|| panic!("{name}: nothing found"));
        let signature = &found.signature;
        assert_eq!((signature.family, &signature.class), (wanted.family, &wanted.class), "{name}");
        assert_eq!((&signature.operator, &signature.condition), (&wanted.operator, &wanted.condition), "{name}");
        assert!(shown.contains(&found.title) && shown.contains(&found.meaning), "{name}");
        if let Some(operator) = &wanted.operator {
            assert_eq!(&found.operators, std::slice::from_ref(operator), "{name}");
            assert!(shown.contains(&format!("operator:  {operator}\n")), "{name}: {shown}");
        }
        if wanted.family == Family::DeviceAssert && wanted.file.is_some() {
            let said = found.assertion.as_ref().unwrap_or_else(|| panic!("{name}: no assertion"));
            assert!(said.means.is_some(), "{name}: the condition is not put into words");
            assert!(shown.contains("assertion: "), "{name}: {shown}");
        }
        if name.ends_with("clb0.log") && found.stack.frame.is_some() && wanted.family == Family::DeviceAssert {
            assert_eq!(found.stack.stack, Stack::Asynchronous, "{name}");
            assert!(shown.contains("this line may be innocent"), "{name}: {shown}");
        }
        assert!(!found.advice.is_empty() && shown.contains("Usual mistakes"), "{name}");
    }
}

#[test]
fn advice_is_that_of_the_operator() {
    let with = |kernel: &str, condition: &str, code: &str| {
        explained(&format!(
            "/pytorch/{kernel}: block: [0,0,0], thread: [0,0,0] Assertion `{condition}` failed.\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    {code}\ntorch.AcceleratorError: CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/ for more information.\n"
        ))
    };
    let kernel = "ScatterGatherKernel.cu:409: operator()";
    let condition = "idx_dim >= 0 && idx_dim < index_size && \"index out of bounds\"";
    let hot = with(kernel, condition, "F.one_hot(x, 3)");
    let scatter = with(kernel, condition, "y.scatter_(1, x, 1.0)");
    assert_eq!(hot.advice[0].operator.as_deref(), Some("torch.nn.functional.one_hot"));
    assert_eq!(scatter.advice[0].operator.as_deref(), Some("torch.Tensor.scatter_"));
    assert_ne!(hot.advice[0].advice, scatter.advice[0].advice);
    for class in Catalog::embedded().classes().iter().take(5).filter(|class| class.class != "user_assert") {
        for operator in &class.operators {
            assert_ne!(
                class.advice_for(Some(&operator.name)),
                class.advice_for(None),
                "{} {}",
                class.class,
                operator.name
            );
        }
    }
}

#[test]
fn colours_progress_bars_ranks_and_windows_are_no_obstacle() {
    let windows = r#"C:\actions-runner\_work\pytorch\pytorch\builder\windows\pytorch\aten\src\ATen\native\cuda\IndexKernel.cu:92: block: [127,0,0], thread: [31,0,0] Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed."#;
    for (text, class) in [
        (
            format!("\x1b[31m{NLL}\x1b[0m\n\x1b[1;31mRuntimeError\x1b[0m: CUDA error: device-side assert triggered\n"),
            "label_out_of_range",
        ),
        (format!("Epoch 2:  12%|#2   | 3/25 [00:01<00:07,  3.1it/s]{NLL}\r 5/25"), "label_out_of_range"),
        (format!("[rank3]: \x1b[33m{NLL}\x1b[0m"), "label_out_of_range"),
        (windows.to_owned(), "index_out_of_range"),
    ] {
        assert_eq!(explained(&text).signature.class, class, "{text}");
    }
    let mut wide = vec![0xff, 0xfe];
    wide.extend(windows.encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(explain(&wide).unwrap().signature.class, "index_out_of_range");
    let coloured = explained(&format!(
        "{NLL}\nTraceback (most recent call last):\n  File \"train.py\", line 3, in step\r\n    loss.backward()\r\n\x1b[1;31mRuntimeError\x1b[0m: CUDA error: device-side assert triggered\r\nCUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be incorrect.\r\n"
    ));
    assert_eq!(coloured.stack.stack, Stack::Asynchronous);
    assert_eq!(coloured.stack.frame.map(|frame| (frame.line, frame.code)), Some((3, "loss.backward()".to_owned())));
}

#[test]
fn texts_of_all_ages_are_explained() {
    let old = "THCudaCheck FAIL file=/pytorch/aten/src/THC/generic/THCTensorCopy.cpp line=70 error=59 : device-side assert triggered\nTraceback (most recent call last):\n  File \"main.py\", line 30, in <module>\n    loss.item()\nRuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/generic/THCTensorCopy.cpp:70\n";
    assert_eq!(explained(old).signature.class, "unnamed_assert");
    let whole = explained(&format!(
        "/pytorch/aten/src/THCUNN/ClassNLLCriterion.cu:105: void cunn_ClassNLLCriterion_updateOutput_kernel(Dtype *, int) [with Dtype = float, Acctype = float]: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.\n{old}"
    ));
    assert_eq!(whole.signature.class, "label_out_of_range");
    assert!(whole.stack.words.contains("may be innocent"));
    for text in [
        "RuntimeError: CUDA error: device-side assert triggered\n",
        "RuntimeError: copy_if failed to synchronize: cudaErrorAssert: device-side assert triggered\n",
        "RuntimeError: Triton Error [CUDA]: device-side assert triggered\n",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA_ERROR_ASSERT: device-side assert triggered\n",
        "host:12:34 [0] NCCL WARN Cuda failure 710 'device-side assert triggered'\n",
    ] {
        let found = explained(text);
        assert_eq!(found.signature.class, "unnamed_assert", "{text}");
        assert!(found.to_string().contains("standard error"), "{text}");
    }
}

#[test]
fn messengers_workers_watchdogs_and_launchers_are_named() {
    let blas = explained(&format!(
        "{NLL}\nRuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`\n"
    ));
    assert_eq!(blas.signature.class, "label_out_of_range");
    says(&blas, RemarkKind::Messenger, "CUBLAS_STATUS_INTERNAL_ERROR");
    let alone = explained("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n");
    assert_eq!(alone.signature.class, "library_status");
    says(&alone, RemarkKind::Messenger, "CUDA_LAUNCH_BLOCKING=1");
    let dsa = explained(&format!(
        "{NLL}\nRuntimeError: CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    ));
    says(&dsa, RemarkKind::WrongAdvice, "exporting it changes nothing");
    let worker = explained(
        "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nIndexError: Caught IndexError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n  File \"t.py\", line 9, in __getitem__\n    return table[i]\nIndexError: index 9 is out of bounds for dimension 0 with size 4\n",
    );
    says(&worker, RemarkKind::Worker, "DataLoader worker process 0");
    let bus = explained(
        "RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.\n",
    );
    says(&bus, RemarkKind::Worker, "shared memory ran out");
    let torchrun = explained(&format!(
        "[rank1]:{NLL}\n[rank0]:[E728 11:07:49.454848243 ProcessGroupNCCL.cpp:1896] [PG ID 2 PG GUID 3 Rank 0] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n====\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  time      : 2024-07-28_11:07:49\n  host      : h\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 1464610)\n  error_file: <N/A>\n"
    ));
    says(&torchrun, RemarkKind::Launcher, "printed by rank 1");
    says(&torchrun, RemarkKind::Watchdog, "its stack says nothing");
    let lost = explained(
        "[rank0]:[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n",
    );
    says(&lost, RemarkKind::Watchdog, "the rank that failed first");
    let swallowed = explained(&format!(
        "{NLL}\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nValueError: training failed\n"
    ));
    says(&swallowed, RemarkKind::Swallowed, "ValueError: training failed");
    let sanitizer = explained(
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n=========     at void at::native::<unnamed>::ctc_loss_log_alpha_gpu_kernel<float, long>(T1 *)+0x11d0\n========= ERROR SUMMARY: 2 errors\n",
    );
    says(&sanitizer, RemarkKind::Sanitizer, "ctc_loss_log_alpha_gpu_kernel");
    let xid = explained(
        "RuntimeError: CUDA error: an illegal memory access was encountered\nNVRM: Xid (PCI:0000:3d:00): 79, pid=35521\n",
    );
    says(&xid, RemarkKind::KernelLog, "hardware");
}

#[test]
fn every_class_and_operator_of_the_catalogue_is_put_into_words() {
    for class in Catalog::embedded().classes() {
        for entry in class.asserts.iter().filter(|entry| entry.condition != "*") {
            let message = if entry.message.is_empty() { String::new() } else { format!(" && \"{}\"", entry.message) };
            let function = entry.functions.first().map_or("some_kernel", String::as_str);
            let found = explained(&format!(
                "/pytorch/{}:7: {function}: block: [0,0,0], thread: [0,0,0] Assertion `{}{message}` failed.\n",
                entry.file, entry.condition
            ));
            let shown = found.to_string();
            assert!(shown.contains("assertion: ") && shown.contains("Usual mistakes"), "{}: {shown}", entry.id);
        }
    }
}

/// A log of any size that is never held: a block, again and again, and an end.
struct Long {
    block: Vec<u8>,
    end: Vec<u8>,
    left: u64,
    at: usize,
}

impl Read for Long {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let source = if self.left == 0 { &self.end } else { &self.block };
        let count = buffer.len().min(source.len() - self.at);
        buffer[..count].copy_from_slice(&source[self.at..self.at + count]);
        self.at += count;
        if self.at == source.len() && self.left > 0 {
            self.left -= 1;
            self.at = 0;
        }
        Ok(count)
    }
}

fn quiet() -> Vec<u8> {
    let mut block = String::new();
    for step in 0.. {
        if block.len() >= 1 << 20 {
            break;
        }
        block += &format!(
            "2024-07-28 11:07:49,{step:03} INFO trainer: epoch 3 step {step} loss 0.{step:05} lr 3.0e-04 | CUDA memory 12.3 GiB | 3.1 it/s\n"
        );
    }
    block.into_bytes()
}

#[test]
fn a_log_of_a_gigabyte_is_read_in_little_memory_and_at_the_speed_of_a_disk() {
    let block = quiet();
    let mut child = Command::new(REDUCE)
        .args(["explain", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut written = 0_u64;
    while written < 1 << 30 {
        input.write_all(&block).unwrap();
        written += block.len() as u64;
    }
    input.write_all(NLL.repeat(2000).replace("failed.", "failed.\n").as_bytes()).unwrap();
    // All but a pipe's content is read by now.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["signature"]["class"], "label_out_of_range");
    assert_eq!(found["assertion"]["lines"], 2000);
    assert!(peak < 50 * 1024, "{peak} kB");

    let mut log = Long { block, end: NLL.as_bytes().to_vec(), left: 1024, at: 0 };
    let (before, begun) = (processor_time(), Instant::now());
    let mut digest = Digest::default();
    digest.add("long", &mut log).unwrap();
    let spent = (processor_time() - before).as_secs_f64();
    let speed = digest.bytes as f64 / spent / 1e6;
    println!("{speed:.0} MB/s of processor time, {:.1} s; {peak} kB", begun.elapsed().as_secs_f64());
    // The engine's own loops are not optimised in a test build.
    let least = if cfg!(debug_assertions) { 250.0 } else { 500.0 };
    assert!(speed > least, "{speed:.0} MB/s");
    assert_eq!(explain::explain(&digest).unwrap().signature.class, "label_out_of_range");
}

#[test]
fn a_log_without_a_failure_and_a_missing_file_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("fine.log");
    fs::write(&log, "all is well\n").unwrap();
    let run = |path: &std::path::Path| Command::new(REDUCE).arg("explain").arg(path).output().unwrap();
    assert_eq!(run(&log).status.code(), Some(3), "{}", text(&run(&log)));
    assert_eq!(run(&folder.path().join("absent.log")).status.code(), Some(2));
    // A launcher's folder: every rank's standard error counts.
    fs::create_dir_all(folder.path().join("attempt_0/1")).unwrap();
    fs::write(folder.path().join("attempt_0/1/stderr.log"), format!("{NLL}\n")).unwrap();
    let output = run(folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("label_out_of_range: "), "{}", text(&output));
}

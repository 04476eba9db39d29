//! Signatures against recorded logs and every shape that CUDA, HIP, PyTorch and its tools print.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reduce::signature::{self, Catalog, Evidence, Family, Match, Signature};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Expected {
    Nothing(String),
    Failure(Wanted),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) family: Family,
    pub(crate) class: String,
    pub(crate) operator: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) condition: Option<String>,
}

pub(crate) fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpu-logs")
}

pub(crate) fn expected() -> BTreeMap<String, Expected> {
    let text = fs::read_to_string(logs().join("expected.yaml")).expect("expected.yaml");
    serde_yaml::from_str(&text).expect("expected.yaml has the shape of a table")
}

fn log(text: &str) -> Option<Signature> {
    signature::parse(&Evidence { stderr: text, ..Evidence::default() })
}

fn read(text: &str) -> Signature {
    log(text).unwrap_or_else(|| panic!("no signature in {text}"))
}

fn with_operator(text: &str, operator: &str) -> Signature {
    signature::parse(&Evidence { stderr: text, operator: Some(operator), ..Evidence::default() }).expect("a signature")
}

fn raised(kind: &str, message: &str, operator: Option<&str>) -> Option<Signature> {
    signature::parse(&Evidence {
        exception_type: Some(kind),
        exception_message: Some(message),
        operator,
        ..Evidence::default()
    })
}

fn line(file: &str, function: &str, condition: &str) -> String {
    format!(
        "/pytorch/aten/src/ATen/native/cuda/{file}:7: {function}: block: [0,0,0], thread: [0,0,0] Assertion `{condition}` failed.\n"
    )
}

const CROSS_ENTROPY: &str = "torch.nn.functional.cross_entropy";
const EMBEDDING: &str = "torch.nn.functional.embedding";
const NLL: &str = "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.";
const ASYNC: &str = "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n";

#[test]
fn every_recorded_log_shows_what_it_was_read_to_show() {
    let expected = expected();
    let mut seen = 0;
    for file in fs::read_dir(logs()).expect("fixtures") {
        let name = file.expect("an entry").file_name().into_string().expect("a plain name");
        if !name.ends_with(".log") {
            continue;
        }
        seen += 1;
        let text = fs::read_to_string(logs().join(&name)).expect("a log");
        let found = log(&text);
        match expected.get(&name).unwrap_or_else(|| panic!("{name} is not in expected.yaml")) {
            Expected::Nothing(word) => {
                assert_eq!(word, "none");
                assert_eq!(found, None, "{name}");
            }
            Expected::Failure(wanted) => {
                let found = found.unwrap_or_else(|| panic!("{name}: nothing found"));
                assert_eq!(found.family, wanted.family, "{name}");
                assert_eq!(found.class, wanted.class, "{name}");
                assert_eq!(found.operator, wanted.operator, "{name}");
                assert_eq!(found.file, wanted.file, "{name}");
                assert_eq!(found.function, wanted.function, "{name}");
                assert_eq!(found.condition, wanted.condition, "{name}");
            }
        }
    }
    assert_eq!(seen, expected.len());
    assert!(seen >= 100, "{seen} logs");
}

#[test]
fn a_program_fails_alike_with_and_without_blocking_launches() {
    for (name, wanted) in expected() {
        let (Some(stem), Expected::Failure(_)) = (name.strip_suffix(".clb0.log"), wanted) else {
            continue;
        };
        let text = |mode: &str| fs::read_to_string(logs().join(format!("{stem}.{mode}.log"))).expect("a log");
        let (free, blocking) = (read(&text("clb0")), read(&text("clb1")));
        for level in [Match::Strict, Match::Normal, Match::Loose] {
            assert!(free.matches(&blocking, level) && blocking.matches(&free, level), "{stem} {level:?}");
        }
    }
}

#[test]
fn assertion_lines_of_all_shapes_are_read() {
    let windows = r#"C:\actions-runner\_work\pytorch\pytorch\builder\windows\pytorch\aten\src\ATen\native\cuda\IndexKernel.cu:92: block: [127,0,0], thread: [31,0,0] Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed."#;
    let old = "/pytorch/aten/src/THC/THCTensorIndex.cu:362: void indexSelectLargeIndex(TensorInfo<T, IndexType>, TensorInfo<T, IndexType>, TensorInfo<long, IndexType>, int, int, IndexType, IndexType, long) [with T = float, IndexType = unsigned int, DstDim = 2, SrcDim = 2, IdxDim = -2, IndexIsMajor = true]: block: [163,0,0], thread: [28,0,0] Assertion `srcIndex < srcSelectDimSize` failed.";
    let gather = "void THCudaTensor_gatherKernel(TensorInfo<Real, IndexType>, long) [with IndexType = unsigned int, Real = float, Dims = 2]";
    let hip = "/pytorch/aten/src/ATen/native/hip/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: Device-side assertion `t >= 0 && t < n_classes' failed.";
    let verbose = r#"[CUDA_KERNEL_ASSERT] /pytorch/IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [0,0,0], thread: [5,0,0]: Assertion failed: `ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"`: Expected 0 <= index < ind_dim_size(10), but got index = 12"#;
    let scatter = r#"ind >= 0 && ind < self_dim_size && "tma scatter add index out of bounds""#;
    let thc = "/pytorch/aten/src/";
    let at = ": block: [0,0,0], thread: [0,0,0] Assertion ";
    let cases: Vec<(String, &str, &str, Option<&str>, &str)> = vec![
        (NLL.to_owned(), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (format!("Epoch 2:  12%|#2   | 3/25 [00:01<00:07,  3.1it/s]{NLL}"), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (format!("\r 1/3 [00:00<?, ?it/s]\r[rank0]:{NLL}\r\n"), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (format!("(VllmWorker rank=0 pid=223) ERROR 07-28 11:07:49 [worker.py:12] {NLL}"), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (format!(r#"{{"stderr": "train.py:3: boom\n{NLL}\n{NLL}\n"}}"#), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (windows.to_owned(), "index_out_of_range", "IndexKernel.cu", Some("operator()"), "-sizes[i] <= index && index < sizes[i]"),
        (old.to_owned(), "index_out_of_range", "Indexing.cu", Some("indexSelectLargeIndex"), "srcIndex < srcSelectDimSize"),
        (format!("{thc}THC/THCTensorScatterGather.cu:97: {gather}{at}`indexValue >= 0 && indexValue < src.sizes[dim]` failed."), "index_out_of_range", "ScatterGatherKernel.cu", Some("operator()"), "idx_dim >= 0 && idx_dim < index_size"),
        (format!("{thc}THCUNN/ClassNLLCriterion.cu:105: void cunn_ClassNLLCriterion_updateOutput_kernel(Dtype *, int) [with Dtype = float, Acctype = float]{at}`t >= 0 && t < n_classes` failed."), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (format!("{thc}THCUNN/SpatialClassNLLCriterion.cu:104: cunn_SpatialClassNLLCriterion_updateOutput_kernel{at}`t >= 0 && t < n_classes` failed."), "label_out_of_range", "NLLLoss2d.cu", Some("nll_loss2d_forward_kernel"), "t >= 0 && t < n_classes"),
        (format!("{thc}THCUNN/BCECriterion.cu:42: Acctype bce_functor<Dtype, Acctype>::operator()(Tuple) [with Tuple = thrust::tuple<float, float>, Dtype = float]{at}`input >= 0. && input <= 1.` failed."), "probability_out_of_range", "Loss.cu", Some("operator()"), "input_val >= zero && input_val <= one"),
        (format!("{thc}THC/THCTensorRandom.cuh:185: void sampleMultinomialOnce(long *, long, int, T *, T *) [with T = float, AccT = float]{at}`THCNumerics<T>::ge(val, zero)` failed."), "invalid_distribution", "MultinomialKernel.cu", Some("sampleMultinomialOnce"), "!at::_isnan(val)"),
        (line("IndexKernel.cu", "lambda [](int)->auto::operator()(int)->auto", r#"index >= -sizes[i] && index < sizes[i] && \"index out of bounds\""#), "index_out_of_range", "IndexKernel.cu", Some("operator()"), "-sizes[i] <= index && index < sizes[i]"),
        ("unknown:0: unknown: block: [0,0,0], thread: [128,0,0] Assertion `index out of bounds: 0 <= tmp4 < 32000` failed.".to_owned(), "compiled_index", "<generated>", None, "index out of bounds: 0 <= index < bound"),
        ("<frozen importlib._bootstrap_external>:843: _call_with_frames_removed: block: [45,2,0], thread: [32,0,0] Assertion `index out of bounds: 0 <= tmp4 < 24` failed.".to_owned(), "compiled_index", "<generated>", None, "index out of bounds: 0 <= index < bound"),
        ("/tmp/torchinductor_me/ab/cabc.py:33: unknown: block: [0,0,0], thread: [0,0,0] Assertion `index out of bounds: 0 <= tl.broadcast_to(tmp10, [YBLOCK, XBLOCK]) < 64` failed.".to_owned(), "compiled_index", "<generated>", None, "index out of bounds: 0 <= index < bound"),
        (line("TensorCompare.cu", "_assert_async_cuda_kernel", ""), "user_assert", "TensorCompare.cu", Some("_assert_async_cuda_kernel"), ""),
        (line("TensorCompare.cu", "_assert_async_cuda_kernel", "probability tensor contains either `inf`, `nan` or element < 0"), "invalid_distribution", "TensorCompare.cu", Some("_assert_async_cuda_kernel"), "probability tensor contains either `inf`, `nan` or element < 0"),
        (line("ValidateCompressedIndicesCommon.h", "_assert", "cond && message"), "sparse_invariants", "ValidateCompressedIndicesCommon.h", Some("_assert"), "cond && message"),
        (line("ScatterAdd.cu", "tma_scatter_add_kernel", scatter), "index_out_of_range", "ScatterGatherKernel.cu", Some("tma_scatter_add_kernel"), "ind >= 0 && ind < self_dim_size"),
        (line("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean", "input[emb] < numRows"), "index_out_of_range", "EmbeddingBag.cu", Some("EmbeddingBag_updateOutputKernel_sum_mean"), "!has_invalid_index"),
        (line("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_max", "end >= begin"), "embedding_bag_offsets", "EmbeddingBag.cu", Some("EmbeddingBag_updateOutputKernel_max"), "end >= begin"),
        (line("Reduce.cuh", "set_results", "noutputs == 1"), "pytorch_internal", "Reduce.cuh", Some("set_results"), "noutputs == 1"),
        (line("mine.cu", "my_kernel", "i < n"), "unknown_assert", "mine.cu", Some("my_kernel"), "i < n"),
        (hip.to_owned(), "label_out_of_range", "Loss.cu", Some("nll_loss_forward_reduce_cuda_kernel_2d"), "t >= 0 && t < n_classes"),
        (verbose.to_owned(), "index_out_of_range", "IndexKernelUtils.cu", Some("vectorized_gather_kernel"), "ind >=0 && ind < ind_dim_size"),
        ("GPU assertion failure message = t >= 0\n  File containing assertion = /x/mine.cu:9\n  Device function containing assertion = k\n".to_owned(), "unknown_assert", "mine.cu", Some("k"), "t >= 0"),
    ];
    for (text, class, file, function, condition) in cases {
        let found = read(&text);
        assert_eq!(found.family, Family::DeviceAssert, "{text}");
        assert_eq!(found.class, class, "{text}");
        assert_eq!(found.file.as_deref(), Some(file), "{text}");
        assert_eq!(found.function.as_deref(), function, "{text}");
        assert_eq!(found.condition.as_deref(), Some(condition), "{text}");
    }
    let stdout = signature::parse(&Evidence { stdout: verbose, ..Evidence::default() }).expect("device printf");
    assert_eq!(stdout.class, "index_out_of_range");
}

#[test]
fn every_wording_and_line_of_the_catalogue_is_read_back() {
    for class in Catalog::embedded().classes() {
        for entry in &class.asserts {
            if entry.condition == "*" {
                continue;
            }
            let function = entry.functions.first().map_or("some_kernel", String::as_str);
            let message = if entry.message.is_empty() { String::new() } else { format!(" && \"{}\"", entry.message) };
            let text = line(&entry.file, function, &format!("{}{message}", entry.condition));
            for operator in &entry.operators {
                let found = with_operator(&text, operator);
                assert_eq!((&found.class, found.operator.as_ref()), (&class.class, Some(operator)), "{}", entry.id);
            }
        }
    }
}

#[test]
fn exceptions_without_an_assertion_line_are_told_apart() {
    let alone = [
        (
            "RuntimeError",
            "cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/generic/THCTensorMath.cu:26",
        ),
        ("RuntimeError", "CUDA error: device-side assert triggered"),
        ("RuntimeError", "copy_if failed to synchronize: device-side assert triggered"),
        ("RuntimeError", "reduce failed to synchronize: cudaErrorAssert: device-side assert triggered"),
        (
            "RuntimeError",
            "CUDA error: device-side assert triggered (insert_events at /pytorch/c10/cuda/CUDACachingAllocator.cpp:569)",
        ),
        ("RuntimeError", "CUDA driver error: device-side assert triggered"),
        ("RuntimeError", "Triton Error [CUDA]: device-side assert triggered"),
        (
            "torch.AcceleratorError",
            "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/ for more information.\n",
        ),
        ("jax.errors.JaxRuntimeError", "INTERNAL: CUDA_ERROR_ASSERT: device-side assert triggered"),
    ];
    for (kind, message) in alone {
        let found = raised(kind, message, None).expect("a signature");
        assert_eq!((found.family, found.class.as_str()), (Family::DeviceAssert, "unnamed_assert"), "{message}");
        assert_eq!(found, read(&format!("Traceback (most recent call last):\n{kind}: {message}\n")), "{message}");
        for level in [Match::Strict, Match::Normal, Match::Loose] {
            assert!(!found.matches(&found, level), "{message}");
        }
    }
    let cases = [
        ("torch.AcceleratorError", "CUDA error: an illegal memory access was encountered", "illegal_access"),
        ("RuntimeError", "CUDA error: misaligned address", "misaligned_address"),
        ("RuntimeError", "CUDA error: unspecified launch failure", "launch_failure"),
        ("RuntimeError", "HIP error: unspecified launch failure", "launch_failure"),
        ("RuntimeError", "CUDA error: an illegal instruction was encountered", "illegal_instruction"),
        (
            "RuntimeError",
            "cuda runtime error (77) : an illegal memory access was encountered at x.cu:3",
            "illegal_access",
        ),
        ("RuntimeError", "CUDA driver error: invalid argument", "cuda_error"),
        ("RuntimeError", "CUDA error: operation failed due to a previous error during capture", "cuda_error"),
        (
            "RuntimeError",
            "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`",
            "library_status",
        ),
        (
            "RuntimeError",
            "cublas runtime error : resource allocation failed at /pytorch/aten/src/THC/THCGeneral.cpp:228",
            "library_status",
        ),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "library_status"),
        ("RuntimeError", "DataLoader worker (pid(s) 12, 13) exited unexpectedly", "worker_lost"),
        (
            "RuntimeError",
            "DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
            "worker_lost",
        ),
        (
            "RuntimeError",
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
            "forked_cuda",
        ),
    ];
    for (kind, message, class) in cases {
        let found = raised(kind, message, None).expect("a signature");
        assert_eq!(found.class, class, "{message}");
        assert!(found.matches(&found, Match::Strict), "{message}");
    }
    let status = |name: &str| {
        raised("RuntimeError", &format!("CUDA error: CUBLAS_STATUS_{name} when calling `f`"), None)
            .expect("a signature")
    };
    assert!(!status("INTERNAL_ERROR").matches(&status("ALLOC_FAILED"), Match::Normal));
    for text in ["CUDA out of memory. Tried to allocate 2 GiB", "CUDA error: out of memory"] {
        assert_eq!(raised("torch.OutOfMemoryError", text, None), None, "{text}");
    }
    assert_eq!(raised("NameError", "name 'labels' is not defined", None), None);
    assert_eq!(
        log("Traceback (most recent call last):\n  File \"a.py\", line 1\nNameError: name 'x' is not defined\n"),
        None
    );
    assert_eq!(log(""), None);
}

#[test]
fn a_messenger_does_not_hide_what_failed_first() {
    let decoy =
        "train.py:9: UserWarning: gemm_and_bias error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasLtMatmul\n";
    let text = format!(
        "{NLL}\n{decoy}RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate(handle)`\n"
    );
    assert_eq!(read(&text).class, "label_out_of_range");
    let swallowed = "CUDA error: an illegal memory access was encountered\nRuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n";
    assert_eq!(read(swallowed).class, "illegal_access");
    let chained = format!(
        "{ASYNC}\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\nValueError: training failed\n"
    );
    assert_eq!(read(&chained).class, "unnamed_assert");
    let clean =
        signature::parse(&Evidence { stderr: NLL, ..Evidence::default() }).expect("status 0, but the line is there");
    assert_eq!(clean.exception, None);
}

#[test]
fn workers_ranks_and_aborts_are_read() {
    let worker = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\nIndexError: Caught IndexError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n  File \"t.py\", line 9, in __getitem__\n    return table[i]\nIndexError: index 9 is out of bounds for dimension 0 with size 4\n";
    let found = read(worker);
    assert_eq!((found.family, found.class.as_str()), (Family::HostCheck, "index_out_of_range"));
    let watchdog = "[rank0]:[E728 11:07:49.454848243 ProcessGroupNCCL.cpp:1896] [PG ID 2 PG GUID 3 Rank 0] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered\nterminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 2 PG GUID 3 Rank 0] Process group watchdog thread terminated with exception: CUDA error: device-side assert triggered\n";
    assert_eq!(read(watchdog).class, "unnamed_assert");
    assert_eq!(read(&format!("{watchdog}[rank1]:{NLL}\n")).class, "label_out_of_range");
    assert_eq!(
        read("host:12:34 [0] NCCL WARN Cuda failure 710 'device-side assert triggered'\n").class,
        "unnamed_assert"
    );
    assert_eq!(
        read(
            "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n"
        )
        .class,
        "collective_timeout"
    );
    let torchrun = format!(
        "{NLL}\nE0728 failed (exitcode: 1) local_rank: 0 (pid: 1464610) of binary: /venv/bin/python\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n==== train.py FAILED\n"
    );
    assert_eq!(read(&torchrun).class, "label_out_of_range");
    let abort = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: an illegal memory access was encountered\nException raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in libc10.so)\n";
    assert_eq!(read(abort).class, "illegal_access");
    assert_eq!(read("Memory access fault by GPU node-4 (Agent handle: 0x1c93d70) on address (nil). Reason: Page not present or supervisor privilege.\nAborted (core dumped)\n").class, "illegal_access");
    assert_eq!(read(":0:rocdevice.cpp :2603: 1us: HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016\n").class, "launch_failure");
    assert_eq!(
        read("Error an illegal memory access was encountered at line 118 in file /src/csrc/ops.cu\n").class,
        "illegal_access"
    );
}

#[test]
fn sanitizer_reports_are_read() {
    let memcheck = "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n=========     at void at::native::<unnamed>::ctc_loss_log_alpha_gpu_kernel<float, long>(T1 *, const T1 *)+0x11d0\n=========     by thread (1,0,0) in block (0,0,0)\n========= Program hit cudaErrorLaunchFailure (error 719) due to \"unspecified launch failure\" on CUDA API call to cudaDeviceSynchronize.\n";
    let found = read(memcheck);
    assert_eq!(
        (found.class.as_str(), found.function.as_deref()),
        ("illegal_access", Some("ctc_loss_log_alpha_gpu_kernel"))
    );
    let old = read(
        "========= CUDA-MEMCHECK\n========= Invalid __global__ read of size 8\n=========     at 0x310 in void at::native::f<int>(int)\n",
    );
    assert_eq!(old.function.as_deref(), Some("f"));
    assert!(!found.matches(&old, Match::Normal) && found.matches(&old, Match::Loose));
    let race = read(
        "========= Error: Race reported between Write access at kernel(int *)+0x90 in probe.cu:13\n=========     and Read access at kernel(int *)+0xa0 in probe.cu:14 [2048 hazards]\n",
    );
    assert_eq!((race.class.as_str(), race.function.as_deref()), ("race", Some("kernel")));
    let init =
        read("========= Uninitialized __global__ memory read of size 4 bytes\n=========     at F+0x70 in file.cu:41\n");
    assert_eq!((init.class.as_str(), init.function.as_deref()), ("uninitialized_read", Some("F")));
    assert_eq!(
        read("========= Barrier error detected. Divergent thread(s) in block.\n=========     at k+0x1\n").class,
        "barrier_error"
    );
    assert_eq!(log("========= COMPUTE-SANITIZER\n0.0\n========= ERROR SUMMARY: 0 errors\n"), None);
}

#[test]
fn the_operator_decides_the_class_and_the_kernel_may_change_while_the_bug_stays() {
    let small = line("Indexing.cu", "indexSelectSmallIndex", "srcIndex < srcSelectDimSize");
    let large = line("Indexing.cu", "indexSelectLargeIndex", "srcIndex < srcSelectDimSize");
    let wide = line(
        "IndexKernelUtils.cu",
        "vectorized_gather_kernel",
        r#"ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds""#,
    );
    let scatter = line(
        "ScatterGatherKernel.cu",
        "operator()",
        r#"idx_dim >= 0 && idx_dim < index_size && "scatter gather kernel index out of bounds""#,
    );
    let shapes: Vec<Signature> =
        [&small, &large, &wide, &scatter].iter().map(|text| with_operator(text, "torch.nn.Embedding")).collect();
    for one in &shapes {
        assert_eq!(one.operator.as_deref(), Some(EMBEDDING));
        for other in &shapes {
            assert!(one.matches(other, Match::Normal));
            assert_eq!(one.matches(other, Match::Strict), one == other);
        }
    }
    assert!(!with_operator(&wide, EMBEDDING).matches(&with_operator(&wide, "torch.gather"), Match::Normal));
    assert!(with_operator(&wide, EMBEDDING).matches(&with_operator(&wide, "torch.gather"), Match::Loose));
    assert!(with_operator(&small, EMBEDDING).matches(&read(&wide), Match::Normal));
    assert!(!with_operator(&small, "torch.Tensor.gather").matches(&read(&small), Match::Normal));
    assert!(!read(&small).matches(&read(NLL), Match::Loose));
    let empty = line("TensorCompare.cu", "_assert_async_cuda_kernel", "");
    let put = with_operator(&empty, "torch.Tensor.index_put_");
    assert_eq!((put.class.as_str(), put.operator.as_deref()), ("index_out_of_range", Some("torch.Tensor.__setitem__")));
    assert!(put.matches(&read(&empty), Match::Normal) && read(&empty).matches(&put, Match::Normal));
    let user = with_operator(&empty, "_VariableFunctionsClass._assert_async");
    assert_eq!(user.class, "user_assert");
    assert!(!put.matches(&user, Match::Loose));
    let words = r#"index >= -sizes[i] && index < sizes[i] && "index out of bounds""#;
    let new = r#"-sizes[i] <= index && index < sizes[i] && "index out of bounds""#;
    let (one, two) =
        (read(&line("IndexKernel.cu", "operator()", words)), read(&line("IndexKernel.cu", "operator()", new)));
    assert!(one.matches(&two, Match::Strict));
    let backward = line("Loss.cu", "nll_loss_backward_reduce_cuda_kernel_2d", "t >= 0 && t < n_classes");
    assert!(
        !with_operator(&backward, "torch.Tensor.backward").matches(&with_operator(NLL, CROSS_ENTROPY), Match::Normal)
    );
    assert!(!read(&backward).matches(&read(NLL), Match::Normal));
}

#[test]
fn an_innocent_operator_of_an_asynchronous_report_is_not_believed() {
    let item = with_operator(&format!("{NLL}\n{ASYNC}"), "torch.Tensor.item");
    assert_eq!((item.class.as_str(), item.operator.as_deref()), ("label_out_of_range", None));
    let loss = with_operator(&format!("{NLL}\n{ASYNC}"), CROSS_ENTROPY);
    assert_eq!(loss.operator.as_deref(), Some(CROSS_ENTROPY));
    assert!(item.matches(&loss, Match::Normal) && loss.matches(&item, Match::Strict));
    // Without its line, only the operator of a blocking launch names the failure.
    let lost =
        raised("RuntimeError", "CUDA error: device-side assert triggered", Some(CROSS_ENTROPY)).expect("a signature");
    assert_eq!(lost.class, "label_out_of_range");
    let late = raised("RuntimeError", ASYNC, Some(CROSS_ENTROPY)).expect("a signature");
    assert_eq!(late.class, "unnamed_assert");
}

#[test]
fn a_cpu_tensor_that_fails_is_another_failure() {
    let host = raised("IndexError", "Target 10 is out of bounds.", Some(CROSS_ENTROPY)).expect("a signature");
    assert_eq!((host.family, host.class.as_str()), (Family::HostCheck, "label_out_of_range"));
    let device = with_operator(NLL, CROSS_ENTROPY);
    for level in [Match::Strict, Match::Normal, Match::Loose] {
        assert!(!host.matches(&device, level) && !device.matches(&host, level));
    }
    assert!(host.same_bug(&device));
    let repeats = raised("RuntimeError", "repeats can not be negative", Some("torch.Tensor.repeat_interleave"))
        .expect("a signature");
    assert_eq!(repeats.operator.as_deref(), Some("torch.repeat_interleave"));
}

#[test]
fn number_and_order_of_lines_do_not_change_the_result() {
    let text = fs::read_to_string(logs().join("multi_margin.clb1.log")).expect("a log");
    let is_assert = |line: &&str| line.contains("Assertion `");
    let asserts: Vec<&str> = text.lines().filter(is_assert).collect();
    let rest: Vec<&str> = text.lines().filter(|line| !is_assert(line)).collect();
    let whole = read(&text);
    for step in [1, 3, 7, 64] {
        for from in [0, 1, 50] {
            let mut some: Vec<&str> = asserts.iter().skip(from).step_by(step).copied().collect();
            if from == 1 {
                some.reverse();
            }
            let text = some.iter().chain(&rest).copied().collect::<Vec<_>>().join("\n");
            assert_eq!(read(&text), whole, "{step} {from}");
        }
    }
}

#[test]
fn cut_and_broken_output_is_read_as_far_as_it_goes() {
    for cut in (1..NLL.len()).filter(|at| NLL.is_char_boundary(*at)) {
        if let Some(found) = log(&NLL[..cut]) {
            assert_eq!(found.file.as_deref(), Some("Loss.cu"));
        }
        let text = format!("{}\n{NLL}\n", &NLL[..cut]);
        assert_eq!(read(&text), read(NLL), "cut at {cut}");
    }
    let whole = NLL.find("Assertion `").expect("an assertion") + "Assertion `".len();
    assert_eq!(read(&NLL[..whole + 4]).class, "label_out_of_range");
    let mut bytes = b"\xff\xfe caf\xe9 \x80".to_vec();
    bytes.extend_from_slice(NLL.as_bytes());
    bytes.extend_from_slice(b"\n\xc3\x28 RuntimeError: \xff\n");
    assert_eq!(read(&String::from_utf8_lossy(&bytes)).class, "label_out_of_range");
}

/// What this thread has used of the processor: a busy machine does not change it.
pub(crate) fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts processor time");
    Duration::from_nanos(text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("nanoseconds"))
}

#[test]
fn long_output_is_read_in_well_under_a_second() {
    let size = 64 << 20;
    let mut noise = String::with_capacity(size + 4096);
    while noise.len() < size {
        noise.push_str(
            "step 12 | loss 0.3 [rank0]: File \"a.py\", line 3, in f Assertion x (((( Error: CUDA is fine =====\n",
        );
    }
    let hostile = [
        "a".repeat(8 << 20),
        "Assertion `".repeat(200_000),
        ":1: ".repeat(1_000_000),
        "Traceback (most recent call last):\n".repeat(100_000),
        "[".repeat(4 << 20),
        "========= Invalid __global__ read".repeat(10_000),
    ];
    for text in std::iter::once(&noise).chain(&hostile) {
        let before = processor_time();
        let found = log(text);
        let spent = processor_time() - before;
        assert!(spent < Duration::from_secs(1), "{spent:?} for {}", &text[..20]);
        assert!(found.is_none_or(|found| found.family != Family::DeviceAssert));
    }
    noise.push_str(NLL);
    assert_eq!(read(&noise).class, "label_out_of_range");
}

#[test]
fn a_signature_survives_being_written_and_reads_as_one_line() {
    let found = with_operator(&format!("{NLL}\n{ASYNC}"), CROSS_ENTROPY);
    let text = serde_json::to_string(&found).expect("json");
    assert_eq!(serde_json::from_str::<Signature>(&text).expect("a signature"), found);
    assert_eq!(
        found.to_string(),
        "label_out_of_range in torch.nn.functional.cross_entropy: Loss.cu nll_loss_forward_reduce_cuda_kernel_2d `t >= 0 && t < n_classes`"
    );
    for (name, wanted) in expected() {
        if let Expected::Failure(_) = wanted {
            let shown = read(&fs::read_to_string(logs().join(&name)).expect("a log")).to_string();
            assert!(!shown.contains('\n') && !shown.is_empty(), "{name}");
        }
    }
}

#[test]
fn the_document_lists_every_class() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/signatures.md");
    let text = fs::read_to_string(path).expect("docs/signatures.md");
    let (_, text) = text.split_once("## Classes").expect("a section on classes");
    let listed: Vec<String> = text.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
    let wanted: Vec<String> = Catalog::embedded()
        .classes()
        .iter()
        .map(|class| {
            format!(
                "| `{}` | {} | {} |",
                class.class,
                serde_json::to_value(class.family).expect("a name").as_str().expect("text"),
                class.title
            )
        })
        .collect();
    assert_eq!(listed, wanted);
}

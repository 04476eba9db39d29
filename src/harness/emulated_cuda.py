"""torch.cuda, torch.accelerator and torch.backends as they answer on a machine with a GPU.

Invariant: nothing here changes a random number: all devices draw from the CPU's generator, so that a program
gives the values that it gives on the CPU.  What cannot be had (graphs, compiled kernels) raises NotEmulated.
"""

import sys
import time
import types

from . import emulated_memory
from .emulated_state import FOREIGN, TAG

NAME = "NVIDIA H200"
_LEGACY = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
           "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16", "IntTensor": "int32",
           "LongTensor": "int64", "BoolTensor": "bool"}
_ZERO = ("memory_usage", "utilization", "temperature", "power_draw", "clock_rate", "get_sync_debug_mode",
         "host_memory_stats")
_NOTHING = ("ipc_collect", "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
            "set_sync_debug_mode", "_lazy_call", "_sleep", "caching_allocator_delete", "_record_memory_history")
_MISSING = ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle", "_compile_kernel",
            "caching_allocator_alloc", "CUDAPluggableAllocator", "change_current_allocator", "MemPool",
            "get_stream_from_external", "ExternalStream", "_graph_pool_handle", "current_blas_handle")


def install(state):
    """Replaces the names of torch.cuda, torch.accelerator, torch.backends.cuda and torch.backends.cudnn."""
    torch = state.torch
    cuda = torch.cuda
    local = state.local

    def put(module, name, value):
        setattr(module, name, value)
        for other in ("torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams", "torch.cuda.graphs"):
            part = sys.modules.get(other)
            if module is cuda and part is not None and hasattr(part, name):
                setattr(part, name, value)

    def index_of(device):
        if device is None:
            return local.current
        if isinstance(device, int) and not isinstance(device, bool):
            return local.current if device < 0 else state.use(device)
        place = state.place(device)
        if place is None or place is FOREIGN:
            raise ValueError("Expected a cuda device, but got: %s" % (device,))
        return place

    def init():
        state.use(0)

    def set_device(device):
        if isinstance(device, int) and device < 0:
            return
        local.current = index_of(device)

    def properties(device=None):
        index_of(device)
        return _Properties(
            name=NAME, major=9, minor=0, total_memory=emulated_memory.TOTAL, multi_processor_count=132, is_integrated=0,
            is_multi_gpu_board=0, max_threads_per_multi_processor=2048, warp_size=32, regs_per_multiprocessor=65536,
            shared_memory_per_block=49152, shared_memory_per_block_optin=232448, L2_cache_size=62914560,
            shared_memory_per_multiprocessor=233472, gcnArchName=NAME,
            uuid="00000000-0000-0000-0000-%012d" % index_of(device))

    def synchronize(device=None):
        index_of(device)
        state.use(local.current)
        state.check()

    def checked(value):
        def call(*args, **kwargs):
            return value
        return call

    def missing(name):
        def call(*args, **kwargs):
            raise state.not_emulated("CUDA graphs" if "graph" in name.lower() else "torch.cuda." + name)
        return call

    # one generator for all: what seeds or restores that of a device does so for the CPU too
    drawn = torch.default_generator

    def get_rng_state(device="cuda"):
        return drawn.get_state()

    def get_rng_state_all():
        return [drawn.get_state() for _ in range(state.count)]

    def set_rng_state(new_state, device="cuda"):
        if new_state.numel() == drawn.get_state().numel():      # that of a real device is of another size
            drawn.set_state(new_state.detach().clone())

    def set_rng_state_all(new_states):
        for new_state in new_states[:1]:
            set_rng_state(new_state)

    def manual_seed(seed):
        drawn.manual_seed(int(seed))

    def seed():
        drawn.seed()

    memory = state.memory = emulated_memory.Memory(state, index_of)
    for name in _ZERO:
        if hasattr(cuda, name):
            put(cuda, name, checked(0))
    for name in _NOTHING:
        if hasattr(cuda, name):
            put(cuda, name, checked(None))
    for name in _MISSING:
        if hasattr(cuda, name):
            put(cuda, name, missing(name))
    answers = {
        "is_available": checked(state.count > 0), "device_count": checked(state.count),
        "current_device": lambda: state.use(local.current), "set_device": set_device, "init": init,
        "_lazy_init": init, "is_initialized": lambda: state.initialized,
        "get_device_name": lambda device=None: properties(device).name,
        "get_device_capability": lambda device=None: (properties(device).major, properties(device).minor),
        "get_device_properties": properties, "synchronize": synchronize, "empty_cache": memory.free,
        "mem_get_info": memory.info, "memory_stats": memory.stats, "memory_allocated": memory.allocated,
        "max_memory_allocated": memory.peak, "memory_reserved": memory.reserved,
        "max_memory_reserved": memory.reserved, "memory_cached": memory.reserved,
        "max_memory_cached": memory.reserved, "device_memory_used": memory.reserved,
        "reset_peak_memory_stats": memory.reset, "reset_max_memory_allocated": memory.reset,
        "reset_max_memory_cached": memory.reset, "manual_seed": manual_seed, "manual_seed_all": manual_seed,
        "seed": seed, "seed_all": seed, "set_rng_state": set_rng_state, "set_rng_state_all": set_rng_state_all,
        "memory_stats_as_nested_dict": lambda device=None: {}, "memory_snapshot": lambda *a, **k: [],
        "memory_summary": lambda *a, **k: "", "list_gpu_processes": lambda *a, **k: "",
        "get_rng_state": get_rng_state, "get_rng_state_all": get_rng_state_all,
        "initial_seed": torch.initial_seed, "is_bf16_supported": checked(True), "is_tf32_supported": checked(True),
        "_is_in_bad_fork": lambda: state.bad_fork, "_is_compiled": checked(True),
        "get_arch_list": lambda: ["sm_80", "sm_90"], "can_device_access_peer": checked(False),
        "is_current_stream_capturing": checked(False), "_device_count_nvml": checked(state.count),
        "_check_capability": checked(None), "_check_cubins": checked(None), "has_half": True,
        "default_generators": tuple(torch.default_generator for _ in range(state.count)),
    }
    for name, value in answers.items():
        if hasattr(cuda, name) or name != "device_memory_used":
            put(cuda, name, value)
    cuda.device, cuda.device_of = _device_contexts(state, index_of)
    _streams(state, put, index_of)
    _nvtx(cuda)
    torch.has_cuda = True
    if torch.version.cuda is None:
        torch.version.cuda = "11.7"
    for name, dtype in _LEGACY.items():
        setattr(cuda, name, _legacy(state, name, getattr(torch, dtype)))
    real = torch.backends.cuda.__dict__
    if "is_built" in real:
        torch.backends.cuda.is_built = checked(True)
    cudnn = torch.backends.cudnn
    cudnn.is_available = checked(True)
    cudnn.is_acceptable = checked(False)
    cudnn.version = checked(91002 if state.version >= (2, 8) else 8500)
    _accelerator(state, index_of, synchronize)


class _Properties(types.SimpleNamespace):
    """What get_device_properties answers, with the text that it has there."""

    def __repr__(self):
        return "_CudaDeviceProperties(name='%s', major=%d, minor=%d, total_memory=%dMB, multi_processor_count=%d)" % (
            self.name, self.major, self.minor, self.total_memory >> 20, self.multi_processor_count)


def _device_contexts(state, index_of):
    local = state.local

    class device:
        """torch.cuda.device: the current device inside a block."""

        def __init__(self, device):
            self.idx = -1 if device is None else index_of(device) if device != -1 else -1
            self.prev_idx = -1

        def __enter__(self):
            self.prev_idx = local.current
            if self.idx >= 0:
                local.current = self.idx
            return None

        def __exit__(self, *exc):
            local.current = self.prev_idx
            return False

    class device_of(device):
        """torch.cuda.device_of: that of a tensor."""

        def __init__(self, obj):
            super().__init__(getattr(obj, TAG, None))

    return device, device_of


def _streams(state, put, index_of):
    """Streams and events that do nothing but tell the time: all work is done when a call returns."""
    torch, cuda, local = state.torch, state.torch.cuda, state.local

    class Stream:
        """A stream on which everything has finished."""

        def __init__(self, device=None, priority=0, **kwargs):
            self.device_index = index_of(device)
            self.device = state.devices[self.device_index]
            self.priority = priority
            self.stream_id = self.cuda_stream = 0
            self.device_type = 1

        def synchronize(self):
            state.check()

        def query(self):
            state.check()
            return True

        def is_capturing(self):
            return False

        def wait_stream(self, stream):
            return None

        def wait_event(self, event):
            return None

        def record_event(self, event=None):
            event = event or Event()
            event.record(self)
            return event

        def __eq__(self, other):
            return isinstance(other, Stream) and other.device_index == self.device_index

        def __hash__(self):
            return hash(self.device_index)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return False

    class Event:
        """An event that remembers the host's clock."""

        def __init__(self, enable_timing=False, blocking=False, interprocess=False, **kwargs):
            self.time = None

        def record(self, stream=None):
            state.check()
            self.time = time.perf_counter()

        def wait(self, stream=None):
            return None

        def query(self):
            return True

        def synchronize(self):
            state.check()

        def elapsed_time(self, end):
            return ((end.time or 0.0) - (self.time or 0.0)) * 1000.0

    class StreamContext:
        """`with torch.cuda.stream(s):`."""

        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return None

        def __exit__(self, *exc):
            return False

    state.stream = Stream
    for name, value in (("Stream", Stream), ("Event", Event), ("StreamContext", StreamContext),
                        ("stream", StreamContext), ("set_stream", lambda stream: None),
                        ("current_stream", lambda device=None: Stream(device)),
                        ("default_stream", lambda device=None: Stream(device))):
        put(cuda, name, value)
    torch.Tensor.record_stream = lambda self, stream: None


def _nvtx(cuda):
    nvtx = getattr(cuda, "nvtx", None)
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        if nvtx is not None and hasattr(nvtx, name):
            setattr(nvtx, name, lambda *args, **kwargs: 0)


def _legacy(state, name, dtype):
    """torch.cuda.FloatTensor and its like: constructor and class to test against."""
    torch = state.torch

    class Meta(type):
        """Makes isinstance ask for tag and dtype, and a call make a tensor."""

        def __instancecheck__(cls, value):
            return isinstance(value, torch.Tensor) and getattr(value, TAG, None) is not None and value.dtype == dtype

        def __call__(cls, *args, **kwargs):
            tag = state.use(state.local.current)
            state.check()
            kwargs.pop("device", None)
            if len(args) == 1 and isinstance(args[0], torch.Tensor):
                result = args[0].detach().clone()
            else:
                result = getattr(torch, name)(*args)
            setattr(result, TAG, tag)
            return result

    return Meta(name, (), {"reduce_name": "torch.cuda." + name, "dtype": dtype, "is_cuda": True,
                           "__module__": "torch.cuda"})


def _accelerator(state, index_of, synchronize):
    accelerator = getattr(state.torch, "accelerator", None)
    if accelerator is None:
        return
    local = state.local
    answers = {
        "is_available": lambda: state.count > 0, "device_count": lambda: state.count,
        "current_accelerator": lambda check_available=False: state.torch.device("cuda") if state.count else None,
        "current_device_index": lambda: local.current, "current_device_idx": lambda: local.current,
        "set_device_index": lambda device: setattr(local, "current", index_of(device)),
        "set_device_idx": lambda device: setattr(local, "current", index_of(device)),
        "synchronize": synchronize, "current_stream": lambda device=None: state.stream(device),
        "set_stream": lambda stream: None, "empty_cache": state.memory.free,
        "memory_allocated": state.memory.allocated, "max_memory_allocated": state.memory.peak,
        "memory_reserved": state.memory.reserved, "max_memory_reserved": state.memory.reserved,
        "memory_stats": state.memory.stats, "reset_peak_memory_stats": state.memory.reset,
        "reset_accumulated_memory_stats": lambda device=None: None,
    }
    for name, value in answers.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, value)

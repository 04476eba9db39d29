"""Memory figures of the emulated device: counted over the tensors that live when somebody asks.

Invariant: nothing is counted where nobody asks, and a figure is what the living tensors of the device take, in the
blocks of CUDA's allocator; a peak is the largest figure that was asked for.
This file must not keep a tensor alive.
"""

import collections
import gc

from .emulated_state import TAG

TOTAL = 150109880320
_BLOCK, _SEGMENT = 512, 2 << 20


class Memory:
    """The figures of torch.cuda's memory functions."""

    def __init__(self, state, index_of):
        self.state = state
        self.index_of = index_of
        self.peaks = {}
        self.segments = {}

    def allocated(self, device=None):
        """Bytes of all storages on a device, each rounded up to a block."""
        index = self.index_of(device)
        Tensor = self.state.torch.Tensor
        sizes = {}
        for value in gc.get_objects():
            if issubclass(type(value), Tensor) and getattr(value, TAG, None) == index and \
                    value.layout == self.state.torch.strided:
                store = self.state.raw_storage(value.storage() if self.state.version < (2, 0)
                                               else value.untyped_storage())
                sizes[store.data_ptr()] = store.nbytes()
        used = sum(-(-size // _BLOCK) * _BLOCK for size in sizes.values())
        self.peaks[index] = max(self.peaks.get(index, 0), used)
        self.segments[index] = max(self.segments.get(index, 0), -(-used // _SEGMENT) * _SEGMENT)
        return used

    def peak(self, device=None):
        """Most bytes at any time that somebody asked."""
        self.allocated(device)
        return self.peaks[self.index_of(device)]

    def reserved(self, device=None):
        """Bytes in whole segments, which the allocator keeps."""
        self.allocated(device)
        return self.segments[self.index_of(device)]

    def reset(self, device=None):
        """Forgets the peak."""
        self.peaks.pop(self.index_of(device), None)

    def free(self):
        """empty_cache: segments that nothing uses are given back."""
        self.state.check()
        self.segments.clear()

    def info(self, device=None):
        """mem_get_info: free and total."""
        return TOTAL - self.reserved(device), TOTAL

    def stats(self, device=None):
        """memory_stats with the figures that programs read; all others are zero."""
        found = collections.defaultdict(int)
        for name, current, peak in (("allocated_bytes", self.allocated(device), self.peak(device)),
                                    ("reserved_bytes", self.reserved(device), self.reserved(device))):
            found[name + ".all.current"], found[name + ".all.peak"] = current, peak
        return found

"""Which line a CUDA kernel prints when it asserts: file, line, function, condition, by torch version.

Invariant: a kernel is looked up by name only; None says that this version has no such check (CUDA is silent).
Lines that no log of that version shows are worked out from the neighbouring asserts; nobody may key on them.
This file must not look at tensors.
"""

import os

# kernel -> file, function, then one (line, condition) a column: 1.13, 2.0 to 2.7, 2.8 and later
_T = "t >= 0 && t < n_classes"
_CUR = "cur_target >= 0 && cur_target < n_classes"
_IDX = 'idx_dim >= 0 && idx_dim < index_size && "index out of bounds"'
_SG = 'idx_dim >= 0 && idx_dim < index_size && "scatter gather kernel index out of bounds"'
_OP = "operator()"
_BAG = '!has_invalid_index && "Invalid input index in EmbeddingBag: index out of range [0, numRows)"'
_TAKE = 'idx < numel && idx >= -numel && "cuda_take_put_kernel() index out of bounds"'
_COPY = 'idx >= 0 && idx < self_dim_size && "index_copy_(): index out of bounds"'
_FILL = 'idx >= -self_dim_size && idx < self_dim_size && "index out of bounds"'
_VEC = 'ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"'
_POIS = 'lambda >= 0 && "invalid Poisson rate, expected rate to be non-negative"'
_MARG = 'target_k >= 0 && target_k < dim && "target index is out of bounds"'
_SELECT = 'idx >= -size && idx < size && "index_select(): index out of bounds"'
_ROWS = "input[emb] < numRows"
_PUT = '-sizes[i] <= index && index < sizes[i] && "index out of bounds"'
_PUT_OLD = 'index >= -sizes[i] && index < sizes[i] && "index out of bounds"'

KERNELS = {
    "nll_1d": ("Loss.cu", "nll_loss_forward_reduce_cuda_kernel_1d", (199, _T), (207, _T), (201, _T)),
    "nll_2d": ("Loss.cu", "nll_loss_forward_reduce_cuda_kernel_2d", (242, _T), (250, _T), (245, _T)),
    "nll_none": ("Loss.cu", "nll_loss_forward_no_reduce_cuda_kernel", (178, _CUR), (186, _CUR), (180, _CUR)),
    "nll_image": ("NLLLoss2d.cu", "nll_loss2d_forward_kernel", (104, _T), (106, _T), (106, _T)),
    "nll_image_none": ("NLLLoss2d.cu", "nll_loss2d_forward_no_reduce_kernel", None, (73, _CUR), (73, _CUR)),
    "nll_1d_back": ("Loss.cu", "nll_loss_backward_reduce_cuda_kernel_1d", (433, _T), (441, _T), (434, _T)),
    "nll_2d_back": ("Loss.cu", "nll_loss_backward_reduce_cuda_kernel_2d", (457, _T), (470, _T), (463, _T)),
    "nll_none_back": ("Loss.cu", "nll_loss_backward_no_reduce_cuda_kernel", (414, _CUR), (422, _CUR), (415, _CUR)),
    "nll_image_back": ("NLLLoss2d.cu", "nll_loss2d_backward_kernel", (193, _T), (195, _T), (195, _T)),
    "bce_input": ("Loss.cu", _OP, (92, "input_val >= zero && input_val <= one"),
                  (94, "input_val >= zero && input_val <= one"), (90, "input_val >= zero && input_val <= one")),
    "bce_target": ("Loss.cu", _OP, None, (95, "target_val >= zero && target_val <= one"),
                   (91, "target_val >= zero && target_val <= one")),
    "multi_margin": ("MultiMarginLoss.cu", "MultiMarginLoss_forward_kernel", None, (33, _MARG), (33, _MARG)),
    "select_small": ("Indexing.cu", "indexSelectSmallIndex", (1088, "srcIndex < srcSelectDimSize"),
                     (1369, "srcIndex < srcSelectDimSize"), (1515, "srcIndex < srcSelectDimSize")),
    "select_large": ("Indexing.cu", "indexSelectLargeIndex", (1141, "srcIndex < srcSelectDimSize"),
                     (1422, "srcIndex < srcSelectDimSize"), (1568, "srcIndex < srcSelectDimSize")),
    "sparse_select": ("Indexing.cu", _OP, (1535, _SELECT), (1819, _SELECT), (1965, _SELECT)),
    "sparse_invariant": ("sparse/ValidateCompressedIndicesCommon.h", "_assert", (43, "cond && message"),
                         (44, "cond && message"), (44, "cond && message")),
    "vectorized": ("IndexKernelUtils.cu", "vectorized_gather_kernel", None, None, (16, _VEC)),
    "gather": ("ScatterGatherKernel.cu", _OP, (144, _IDX), (144, _IDX), (163, _SG)),
    "scatter_fill": ("ScatterGatherKernel.cu", _OP, (365, _IDX), (365, _IDX), (409, _IDX)),
    "index": ("IndexKernel.cu", _OP, (92, _PUT_OLD), (94, _PUT), (111, _PUT)),
    "index_fill": ("IndexKernel.cu", _OP, (135, _FILL), (137, _FILL), (154, _FILL)),
    "index_copy": ("IndexKernel.cu", _OP, (174, _COPY), (176, _COPY), (193, _COPY)),
    "take_put": ("IndexKernel.cu", _OP, (292, _TAKE), (310, _TAKE), (339, _TAKE)),
    "add_small": ("Indexing.cu", "indexFuncSmallIndex", (598, "dstIndex < dstAddDimSize"),
                  (875, "dstIndex < dstAddDimSize"), (1021, "dstIndex < dstAddDimSize")),
    "add_large": ("Indexing.cu", "indexFuncLargeIndex", (657, "dstIndex < dstAddDimSize"),
                  (934, "dstIndex < dstAddDimSize"), (1080, "dstIndex < dstAddDimSize")),
    "masked_scatter": ("IndexKernel.cu", "masked_scatter_size_check", (351, "totalElements <= srcSize"),
                       (371, "totalElements <= srcSize"), (400, "totalElements <= srcSize")),
    "renorm": ("MultinomialKernel.cu", "renormRowsL1", (57, "!(val < zero)"), (60, "!(val < zero)"),
               (60, "!(val < zero)")),
    "cumdist": ("MultinomialKernel.cu", "binarySearchForMultinomial",
                (109, "cumdist[size - 1] > static_cast<scalar_t>(0)"),
                (112, "cumdist[size - 1] > static_cast<scalar_t>(0)"),
                (112, "cumdist[size - 1] > static_cast<scalar_t>(0)")),
    "once_nan": ("MultinomialKernel.cu", "sampleMultinomialOnce", (213, "!at::_isnan(val)"),
                 (216, "!at::_isnan(val)"), (216, "!at::_isnan(val)")),
    "once_inf": ("MultinomialKernel.cu", "sampleMultinomialOnce", (214, "!_isinf(val)"),
                 (217, "!_isinf(val)"), (217, "!_isinf(val)")),
    "once_negative": ("MultinomialKernel.cu", "sampleMultinomialOnce", (215, "!(val < zero)"),
                      (218, "!(val < zero)"), (218, "!(val < zero)")),
    "once_zero": ("MultinomialKernel.cu", "sampleMultinomialOnce", (226, "sum > accZero"),
                  (229, "sum > accZero"), (229, "sum > accZero")),
    "assert_async": ("TensorCompare.cu", "_assert_async_cuda_kernel", (106, "input[0] != 0"), (110, ""), (109, "")),
    "bag_mean": ("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean", None, (140, _ROWS), (149, _BAG)),
    "bag_max": ("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_max", None, (89, _ROWS), (89, _BAG)),
    "bag_offsets": ("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_sum_mean", (138, "end >= begin"),
                    (135, "end >= begin"), (141, "end >= begin")),
    "bag_offsets_max": ("EmbeddingBag.cu", "EmbeddingBag_updateOutputKernel_max", (87, "end >= begin"),
                        (83, "end >= begin"), (83, "end >= begin")),
    "unpool_2d": ("MaxUnpooling.cu", "max_unpooling2d_forward_kernel",
                  (48, "maxind >= 0 && maxind < outputImageSize"),
                  (47, "maxind >= 0 && maxind < outputImageSize"),
                  (47, "maxind >= 0 && maxind < outputImageSize")),
    "unpool_3d": ("MaxUnpooling.cu", "max_unpooling3d_forward_kernel",
                  (70, "index >= 0 && index < outputImageSize"),
                  (69, "index >= 0 && index < outputImageSize"),
                  (69, "index >= 0 && index < outputImageSize")),
    "fractional_2d": ("FractionalMaxPool2d.cu", "fractional_max_pool2d_backward_out_cuda_frame", None,
                      (123, "inputH < gradInput.size(2)"), (123, "inputH < gradInput.size(2)")),
    "fractional_3d": ("FractionalMaxPool3d.cu", "fractional_max_pool3d_backward_out_frame", None,
                      (146, "inputT < gradInput.size(2)"), (146, "inputT < gradInput.size(2)")),
    "poisson": ("Distributions.cu", _OP, (50, _POIS), (50, _POIS), (50, _POIS)),
    "repeat": ("Repeat.cu", "compute_cuda_kernel", (28, "repeat >= 0"), (28, "repeat >= 0"), (28, "repeat >= 0")),
    "repeat_size": ("Repeat.cu", "compute_cuda_kernel", (20, "result_size == cumsum_ptr[size - 1]"),
                    (20, "result_size == cumsum_ptr[size - 1]"), (20, "result_size == cumsum_ptr[size - 1]")),
    "segment": ("SegmentReduce.cu", "segment_reduce_forward_kernel", (160, "lengths_data[lengths_idx] >= 0"),
                (141, "lengths_data[lengths_idx] >= 0"), (141, "lengths_data[lengths_idx] >= 0")),
}
for _p, _old, _new in ((4, 593, 624), (3, 598, 629), (2, 603, 634), (1, 608, 639)):
    _cond = "0 <= p%d && p%d <= 1" % (_p, _p)
    KERNELS["bernoulli_%d" % _p] = ("DistributionTemplates.h", _OP, (_old, _cond), (_old - 1, _cond), (_new, _cond))


def column(version):
    """Which column of the table a torch version reads."""
    return 2 if version < (2, 0) else 3 if version < (2, 8) else 4


def line(kernel, version, block=0, thread=0, message=None, condition=None):
    """The assert line of a kernel, or None when this version does not check.

    `message` replaces the condition from 2.0 on (CUDA_KERNEL_ASSERT_MSG); `condition` replaces it always.
    `block` and `thread` are x, or a tuple of three.
    """
    row = KERNELS[kernel]
    entry = row[column(version)]
    if entry is None:
        return None
    number, text = entry
    if condition is not None:
        text = condition
    if message is not None and version >= (2, 0):
        text = message
    root = "/pytorch/aten" if version >= (2, 6) else "../aten"
    folder = "" if "/" in row[0] else "cuda/"
    return "%s/src/ATen/native/%s%s:%d: %s: block: [%s], thread: [%s] Assertion `%s` failed." % (
        root, folder, row[0], number, row[1], _three(block), _three(thread), text)


def _three(x):
    return "%d,%d,%d" % (x if isinstance(x, tuple) else (x, 0, 0))


def write(lines):
    """Writes assert lines to standard error below Python, as the driver does."""
    data = "".join(text + "\n" for text in lines).encode()
    while data:
        try:
            data = data[os.write(2, data):]
        except OSError:
            return

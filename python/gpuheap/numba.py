"""Dynamic memory in kernels of numba-cuda: malloc, free and arrays, from a gpuheap.Heap.

    import gpuheap, gpuheap.numba as gn
    from numba import cuda, float32

    @cuda.jit
    def kernel(heap, out):
        i = cuda.grid(1)
        a = gn.array(heap, i % 7 + 1, float32)
        if a.size != 0:            # 0: the heap had no memory for it
            ...
            gn.free(heap, a)

    with gpuheap.Heap("1 GiB") as heap:
        kernel[blocks, threads](heap.handle, out)
        heap.check()

`heap` in a kernel is Heap.handle, an integer; with @cuda.jit(extensions=[gpuheap.numba.heaps]) the Heap itself can be passed. Addresses are integers
of 64 bits. Any thread may call the functions, in any state of divergence. They are linked as machine code, which takes milliseconds.
"""

from __future__ import annotations

from typing import Any

from gpuheap.heaps.failures import InvalidRequest, MissingPart
from gpuheap.heaps.files import device_code
from gpuheap.heaps.heap import Heap

try:
    from llvmlite import ir
    from numba import cuda
    from numba.cuda import cgutils, config, types
    from numba.cuda.extending import intrinsic, overload, typeof_impl
    from numba.cuda.np.arrayobj import make_array, populate_array
    from numba.cuda.np.numpy_support import as_dtype
    from numba.cuda.typing import signature
    from numba.cuda.typing.npydecl import parse_dtype
except ImportError as _error:
    raise MissingPart(f"gpuheap: gpuheap.numba needs numba-cuda 0.30 or newer: pip install 'numba-cuda[cu13]' ({_error})") from None
except AttributeError as _error:  # numba-cuda 0.30.4 calls a function that NumPy 2.5 no longer has
    raise MissingPart(
        f"gpuheap: the installed numba-cuda does not work with the installed NumPy: install another pair, as 'numpy<2.5' ({_error})"
    ) from None

__all__ = ["address_of", "aligned_malloc", "array", "calloc", "free", "heaps", "malloc", "owns", "realloc", "served_by", "usable_size", "view"]

_CODE = cuda.Fatbin(device_code("fatbin").read_bytes(), name="gpuheap.fatbin")
# All types are signed, because Numba turns a sum of a signed and an unsigned integer into a floating-point number.
_WORD = types.int64


def _declared(name: str, result: Any, *arguments: Any) -> Any:
    return cuda.declare_device(f"gpuheap_v1_{name}", signature(result, *arguments), link=[_CODE], abi="c")


malloc = _declared("malloc", _WORD, _WORD, _WORD)
"""malloc(heap, bytes): the address of a block, aligned to 16 bytes and not initialised. 0 for 0 bytes, and if the heap has no room."""
calloc = _declared("calloc", _WORD, _WORD, _WORD, _WORD)
"""calloc(heap, count, bytes): the address of a block for `count` objects of `bytes` each, all zero; 0 as for malloc."""
aligned_malloc = _declared("aligned_malloc", _WORD, _WORD, _WORD, _WORD)
"""aligned_malloc(heap, bytes, alignment): the address of a block that is aligned to a power of two, 2 MiB at most; 0 as for malloc."""
realloc = _declared("realloc", _WORD, _WORD, _WORD, _WORD)
"""realloc(heap, address, bytes): the address of a block with the old contents up to the smaller size; 0 if the heap has no room: the old block stays."""
usable_size = _declared("usable_size", _WORD, _WORD, _WORD)
"""usable_size(heap, address): the number of bytes that the block at `address` can hold; 0 for the address 0."""
owns = _declared("owns", types.int32, _WORD, _WORD)
"""owns(heap, address): 1 for every live block of the heap, 0 for pointers into other memory."""
_free = _declared("free", types.int32, _WORD, _WORD)


def free(heap: int, block: Any) -> int:
    """In a kernel: frees a block, given by its address or as an array that array() made. The address 0 and arrays without elements do nothing.

    Returns 0 if the block was freed, 1 if there was nothing to free, 2 if it is not a block of the heap, and 3 if it was free already. Heap.stats()
    counts the last two.
    """
    raise _outside("free")


def array(heap: int, shape: Any, dtype: Any) -> Any:
    """In a kernel: a new array, C-ordered and not initialised. `shape` is an integer or a tuple of integers.

    The array has no elements if the heap has no room: check `.size`. It lives until free(heap, array), not until the end of the function.
    """
    raise _outside("array")


def view(address: int, shape: Any, dtype: Any) -> Any:
    """In a kernel: the memory at an address as a C-ordered array. For the address 0, all lengths are 0."""
    raise _outside("view")


def address_of(block: Any) -> int:
    """In a kernel: the address of an array's first element."""
    raise _outside("address_of")


def _outside(name: str) -> RuntimeError:
    return RuntimeError(f"gpuheap.numba.{name} was called outside of a kernel: call it in a function under @cuda.jit")


def served_by(heap: Heap) -> list[Any]:
    """The files to link a kernel with, as in @cuda.jit(link=gpuheap.numba.served_by(heap)), so that Numba's runtime allocates from `heap`.

    The runtime makes arrays such as those of numpy.empty(), and frees them. Heap.stats() counts those that it does not free. The kernel keeps the heap
    alive. Raises InvalidRequest if the runtime is off: it is on if NUMBA_CUDA_ENABLE_NRT=1 was set before Numba was imported. The first call for a GPU's
    architecture compiles for some seconds.
    """
    if not getattr(config, "CUDA_ENABLE_NRT", False):
        raise InvalidRequest(
            "gpuheap: served_by() was called, but Numba's runtime, which makes the arrays, is off: set NUMBA_CUDA_ENABLE_NRT=1 before Numba is imported"
        )
    from gpuheap.heaps.compiler import handle_part, malloc_part

    with cuda.gpus[heap.device]:
        major, minor = cuda.get_current_device().compute_capability
    handle = cuda.PTXSource(handle_part(heap.handle).encode(), name="gpuheap.handle.ptx")
    handle.keeps_alive = heap.native  # the heap lives as long as a kernel that is linked with the handle
    return [cuda.Cubin(malloc_part(10 * major + minor), name="gpuheap.malloc.cubin"), handle]


class _HeapArguments:
    """An extension of Numba that lets kernels be called with a Heap: @cuda.jit(extensions=[gpuheap.numba.heaps])."""

    def prepare_args(self, kind: Any, value: Any, stream: Any, retr: Any) -> tuple[Any, Any]:
        return (_WORD, value.handle) if isinstance(value, Heap) else (kind, value)


heaps = _HeapArguments()


@typeof_impl.register(Heap)  # type: ignore[untyped-decorator]
def _typeof_heap(value: Heap, context: Any) -> Any:
    return _WORD


def _lengths(shape: Any) -> int | None:
    """The number of a shape's axes, or None if the type is not that of a shape."""
    if isinstance(shape, types.Integer):
        return 1
    if isinstance(shape, types.BaseTuple) and len(shape) > 0 and all(isinstance(each, types.Integer) for each in shape):
        return len(shape)
    return None


@intrinsic  # type: ignore[untyped-decorator]
def _array_at(context: Any, address: Any, shape: Any, dtype: Any) -> Any:
    """The array at an address, without elements at address 0."""
    axes, item = _lengths(shape), parse_dtype(dtype)
    if axes is None or item is None or not isinstance(address, types.Integer):
        return None
    kind = types.Array(item, axes, "C")

    def generate(target: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        word = target.get_value_type(types.intp)
        where = target.cast(builder, arguments[0], sig.args[0], types.intp)
        given = [arguments[1]] if isinstance(sig.args[1], types.Integer) else cgutils.unpack_tuple(builder, arguments[1])
        kinds = [sig.args[1]] if isinstance(sig.args[1], types.Integer) else list(sig.args[1])
        zero = ir.Constant(word, 0)
        absent = builder.icmp_unsigned("==", where, zero)
        lengths = [builder.select(absent, zero, target.cast(builder, each, of, types.intp)) for each, of in zip(given, kinds, strict=True)]
        item_type = target.get_data_type(item)
        item_bytes = ir.Constant(word, target.get_abi_sizeof(item_type))
        strides = [item_bytes]
        for length in reversed(lengths[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        made = make_array(kind)(target, builder)
        populate_array(
            made,
            data=builder.inttoptr(where, item_type.as_pointer()),
            shape=cgutils.pack_array(builder, lengths, ty=word),
            strides=cgutils.pack_array(builder, strides, ty=word),
            itemsize=item_bytes,
            meminfo=None,
        )
        return made._getvalue()

    return kind(address, shape, dtype), generate


@intrinsic  # type: ignore[untyped-decorator]
def _address_of(context: Any, block: Any) -> Any:
    if not isinstance(block, types.Array):
        return None

    def generate(target: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        held = make_array(sig.args[0])(target, builder, arguments[0])
        return builder.ptrtoint(held.data, target.get_value_type(_WORD))

    return _WORD(block), generate


# Numba requires the same parameter names in the outer and the inner function. The outer one gets the types of the arguments.
@overload(view, inline="always")
def _view(address, shape, dtype):  # type: ignore[no-untyped-def]
    if _lengths(shape) is None:
        return None
    return lambda address, shape, dtype: _array_at(address, shape, dtype)


@overload(address_of)
def _address_of_array(block):  # type: ignore[no-untyped-def]
    return (lambda block: _address_of(block)) if isinstance(block, types.Array) else None


@overload(array, inline="always")
def _array(heap, shape, dtype):  # type: ignore[no-untyped-def]
    axes, item = _lengths(shape), parse_dtype(dtype)
    if axes is None or item is None:
        return None
    item_bytes = as_dtype(item).itemsize
    most = (1 << 62) // item_bytes
    if isinstance(shape, types.Integer):

        def of_length(heap, shape, dtype):  # type: ignore[no-untyped-def]
            return _array_at(malloc(heap, shape * item_bytes) if 0 < shape <= most else 0, shape, dtype)

        return of_length

    def of_shape(heap, shape, dtype):  # type: ignore[no-untyped-def]
        count = 1
        for length in shape:
            # A product that is too large counts as a request that does not fit. The comparison divides, so that the product cannot overflow.
            count = 0 if length <= 0 or count > most // length else count * length
        return _array_at(malloc(heap, count * item_bytes) if count > 0 else 0, shape, dtype)

    return of_shape


@overload(free)
def _free_block(heap, block):  # type: ignore[no-untyped-def]
    if isinstance(block, types.Array):
        return lambda heap, block: _free(heap, _address_of(block))
    if isinstance(block, types.Integer):
        return lambda heap, block: _free(heap, block)
    return None

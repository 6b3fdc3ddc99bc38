"""The errors that a user can correct. Any other exception that reaches the user is a bug.

    NMTError
    ├── ConfigError   the recipe or the command line requests something impossible
    ├── DataError     a text file, a corpus or standard input does not have the expected content
    └── ModelError    a model, checkpoint or run directory is missing, damaged, too new or incompatible
        └── DamagedError    a file is missing, truncated or changed

A message says what was wrong, where (file:line or ``section.key``), what was expected, and what to do.
"""

from importlib.util import find_spec


class NMTError(Exception):
    """Base of all errors that a user can correct; the commands print it and exit with code 2."""


class ConfigError(NMTError):
    """Raised while a recipe or a command line is read, before any work is done."""


class DataError(NMTError):
    """Raised while text is read: a missing file, a line without a tab, two files of different lengths."""


class ModelError(NMTError):
    """Raised while a model, checkpoint or run directory is opened, saved or resumed."""


class DamagedError(ModelError):
    """Raised for files that are missing, truncated or changed; an older checkpoint may be intact."""


def check_installed(package: str, use: str = "") -> None:
    """Raise ConfigError if a package is not installed. Call it before the slow import of torch or of the package."""
    if find_spec(package) is None:
        raise ConfigError(f"{package}{use} is not installed; run: pip install {package}")


_OOM_MESSAGES = (
    "DefaultCPUAllocator",
    "could not create a primitive",  # oneDNN
    "CUDA error: out of memory",  # of torch.AcceleratorError, which has other causes too
    "[CUDA]: out of memory",  # Triton
    "STATUS_ALLOC_FAILED",  # cuBLAS, cuDNN
    "_ALLOCATION_FAILED",  # CUDNN_STATUS_INTERNAL_ERROR_DEVICE_…, …_HOST_…
    "MPS backend out of memory",
)


def is_oom(error: BaseException) -> bool:
    """Return whether an exception reports that RAM or device memory ran out.

    torch has a class for its CUDA allocator only; elsewhere it raises RuntimeErrors with the message of a library.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's class, not imported here
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OOM_MESSAGES)

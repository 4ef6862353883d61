"""Errors that a user can act on. Each message says what is wrong, where, and what would be accepted."""


class RlhfRayError(Exception):
    """Root of every error this project raises on purpose."""


class ConfigError(RlhfRayError, ValueError):
    """A setting that cannot be used: names the key, the value and what would be accepted."""


class DataError(RlhfRayError, ValueError):
    """A data file that cannot be used: names the file, the line and the reason."""


class ModelError(RlhfRayError, ValueError):
    """A model directory that cannot be used: names the directory, the file or tensor and the fix."""


class SyncError(RlhfRayError, RuntimeError):
    """A weight transfer that is incomplete, damaged or unconfirmed: the generator must not be used."""


class StaleGeneratorError(SyncError):
    """A generator was asked to answer while it has no complete, confirmed set of weights of the wanted version."""


class DivergedError(RlhfRayError, ArithmeticError):
    """A number that must be finite is not (a gradient norm, a score): names it; the weights are untouched."""


class StoppedError(RlhfRayError, RuntimeError):
    """The doctor ended the run before its models were made: names the finding, the step and the setting that asked."""


class SelfCheckError(RlhfRayError, RuntimeError):
    """The step-0 identities do not hold: names each identity with its measured value and its limit."""


class WorkerError(RlhfRayError, RuntimeError):
    """A worker failed: names the role, the phase, the iteration and the worker's own error."""


class ResourceError(RlhfRayError, RuntimeError):
    """The cluster cannot give what the placement asks for: lists wanted against available per role."""


class CheckpointError(RlhfRayError, RuntimeError):
    """A checkpoint that is incomplete, damaged or belongs to another run."""


class MetricError(RlhfRayError, ValueError):
    """A metric that the registry does not know: names it and the nearest known one."""


class ArtifactError(RlhfRayError, ValueError):
    """An artifact that is not what its card says: names the folder and every file that differs."""


class RecordsError(RlhfRayError, RuntimeError):
    """What a run records could not be written or read back: names the directory and the system's reason."""


class OtherDataError(ConfigError):
    """A resume over other rows than the run was started with: nothing of the run was touched."""


class Preempted(KeyboardInterrupt):
    """The process was asked to end (SIGTERM). Not an error of ours: nothing that catches errors may swallow it."""

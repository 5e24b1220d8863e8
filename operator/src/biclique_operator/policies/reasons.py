"""Types and reasons of conditions and events. They are part of what users script against: one may be added, and none
changes its meaning. docs/kubernetes.md has the table."""

from __future__ import annotations

# Types of conditions.
READY = "Ready"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"
STATE_SAFE = "StateSafe"
SCALING_ACTIVE = "ScalingActive"
SUSPENDED = "Suspended"
CONDITIONS = (READY, PROGRESSING, DEGRADED, STATE_SAFE, SCALING_ACTIVE, SUSPENDED)

# What runs, and what is on its way.
RUNNING = "Running"
STARTING = "Starting"
ROLLING = "Rolling"
RESTARTING = "Restarting"
STABLE = "Stable"
STOPPING = "Stopping"
IS_SUSPENDED = "Suspended"
NOT_SUSPENDED = "NotSuspended"
DELETING = "Deleting"
PAUSED = "ReconciliationPaused"

# What a person must mend.
INVALID_MANIFEST = "InvalidManifest"
CHANGE_REFUSED = "ChangeRefused"
ROUTING_LOST = "RoutingLost"
MEND_NEEDED = "MendNeeded"
BUDGET_SPENT = "RestartBudgetSpent"
SECRET_MISSING = "SecretMissing"
VOLUME_MISSING = "VolumeMissing"
MOUNT_FAILED = "MountFailed"
IMAGE_NOT_FOUND = "ImageNotFound"
QUOTA_EXCEEDED = "QuotaExceeded"
POD_REFUSED = "PodRefused"
REMOVAL_REFUSED = "RemovalRefused"
UNSCHEDULABLE = "Unschedulable"
CONTAINER_FAILED = "ContainerFailed"
DRIVER_FAILED = "DriverFailed"
DRIVER_WAITS = "DriverWaits"
UNIT_STANDS_STILL = "UnitStandsStill"
SOURCE_PAUSED = "SourcePaused"
NOTHING_AMISS = "NothingAmiss"

# State.
CHECKPOINTED = "Checkpointed"
CHECKPOINTS_OLD = "CheckpointsOld"
NO_STATE_YET = "NoStateYet"
NOT_KNOWN = "NotKnown"

# Units.
FIXED = "FixedNumber"
HELD = "NumberHeld"

# Events beside those that are named as a condition's reason.
DRIVER_STARTED = "DriverStarted"
DRIVER_STOPPED = "DriverStopped"

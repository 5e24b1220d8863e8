"""What whoever makes a driver's pod (the operator) and whoever runs in it must say alike: ports, names of settings, and
how what was handed over is told from what it was before. Said once, here, since neither may import the other."""

from __future__ import annotations

import hashlib

STATUS_PORT = 7077  # the driver's own server: probes, status, its units' control port
DRIVER_PORT, BLOCKS_PORT = 7078, 7079  # Spark's; fixed, so that a NetworkPolicy can name them
METRICS_PORT = 9464  # of the first unit of a pod; the others take those behind it
METRICS_PORTS = 256  # so many, more than dispatchers that one pod can have (topics.partitions)

CONTROL_IN_KUBERNETES = "kubernetes:"  # and behind it <namespace>/<ConfigMap>

# Digests of what is mounted into the pod. A node may know an older copy than the one that the pod was made for.
MANIFEST_DIGEST, SPARK_DIGEST = "BICLIQUE_MANIFEST_DIGEST", "BICLIQUE_SPARK_DIGEST"
SPARK_FILES = ("executor.yaml", "spark-defaults.conf")  # of SPARK_CONF_DIR, in the order in which they are digested
OLD_COPY = 6  # the exit code of a driver that was given one: a later attempt is given the new one


def digest_of(*texts: str) -> str:
    found = hashlib.sha256()
    for text in texts:
        data = text.encode()
        found.update(b"%d " % len(data) + data)  # so that no two lists of texts read alike
    return found.hexdigest()[:16]

"""What Kubernetes says of a pod that does not begin, as a reason of ours and a sentence with the remedy."""

from __future__ import annotations

import re

from biclique_operator.desired.names import AUTHENTICATION
from biclique_operator.policies import reasons
from biclique_operator.policies.lacking import REMOVAL, is_removal

IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "Failed",  # an event about an image that could not be pulled
}
MISSING = re.compile(r"(secret|persistentvolumeclaim|configmap) \"?([A-Za-z0-9./-]+?)\"? not found")
IMAGE_NAMED = re.compile(r'image "([^"]+)"')
OURS = re.compile(rf"([0-9a-f]{{8}}){AUTHENTICATION}(-\d+)?$")  # a Secret of executors, and the end of its query's id
SAID_MAX = 300
REFUSED = (reasons.QUOTA_EXCEEDED, reasons.POD_REFUSED)  # as `refusal_of` calls them
NO_ANSWER = 504  # of a call that came to no end


def trouble_of(pod: str, reason: str, message: str) -> tuple[str, str]:
    """`reason`: of the pod's condition, of its container, or of an event about it."""
    said = " ".join(message.split())[:SAID_MAX]
    missing = MISSING.search(message)
    if missing is not None and missing[1] == "secret":
        name = missing[2].rpartition("/")[2]
        ours = OURS.search(name)
        if ours is not None and ours[1] in pod:
            driver = pod.partition("-exec-")[0]
            said = f"the Secret {name}, which is the operator's, is missing: delete {driver}, and it is made anew"
            return reasons.SECRET_MISSING, said
        return reasons.SECRET_MISSING, f"the Secret {name} is missing: create it, and {pod} goes on by itself"
    if missing is not None and missing[1] == "persistentvolumeclaim":
        name = missing[2].rpartition("/")[2]
        return reasons.VOLUME_MISSING, f"the PersistentVolumeClaim {name} is missing: create it, and {pod} goes on"
    if reason in IMAGE:
        named = IMAGE_NAMED.search(message)
        image = f"the image {named[1]}" if named is not None else "its image"
        remedy = "correct its name, or give the pods a Secret for its registry"
        return reasons.IMAGE_NOT_FOUND, f"{pod}: {image} cannot be pulled: {remedy}"
    if reason in ("Unschedulable", "SchedulerError", "SchedulingGated", "FailedScheduling"):
        remedy = "make room on a node, or ask for less memory or cpu in the manifest"
        return reasons.UNSCHEDULABLE, f"{pod} finds no node ({said or reason}): {remedy}"
    if reason in ("FailedMount", "FailedAttachVolume"):
        return reasons.MOUNT_FAILED, f"{pod}: {said or reason}"
    return reasons.CONTAINER_FAILED, f"{pod}: {reason}{f' ({said})' if said else ''}"


def refusal_of(pod: str, code: int, message: str) -> tuple[str, str]:
    """Of a pod that the API did not take."""
    said = " ".join(message.split())[:SAID_MAX]
    if is_removal(pod):
        name = pod.removeprefix(f"{REMOVAL} ")
        return reasons.REMOVAL_REFUSED, f"{name} is not wanted any more, and may not be removed ({code}): {said}"
    if code == NO_ANSWER:
        return reasons.POD_REFUSED, f"{pod} could not be made, and is tried again ({said}): see to the API's webhooks"
    if code == 403 and "exceeded quota" in message:
        remedy = "raise the quota, or ask for less in the manifest"
        return reasons.QUOTA_EXCEEDED, f"{pod} is more than the namespace's quota allows ({said}): {remedy}"
    return reasons.POD_REFUSED, f"{pod} was refused ({code}): {said}"

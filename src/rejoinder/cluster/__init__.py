"""Ray cluster: an engine for tasks, and training through Ray Train (version 2).

A task runs on any node. Ray runs it again if its worker or node is lost, which changes nothing: a
task writes whole files or nothing, the same ones each time. All nodes must see the folders of the
job under the same path and have the same version of Rejoinder. Every node is checked before any
work, one that joins later before its first task.
"""

from rejoinder.cluster.engine import RayEngine
from rejoinder.cluster.training import train_on_ray

__all__ = ["RayEngine", "train_on_ray"]

"""Smaller and larger than a cluster: its parts, what it touches, the furniture it stands on.

``cluster:7/0`` is the larger part of cluster 7, ``cluster:7/1`` the smaller one, and each part has
parts again. ``cluster:7^`` is the next larger whole: with what is close to it, then with what is
farther away, at last the furniture with all that stands on it. One ``^`` is one step.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from ...base.errors import InputError
from ...scene.gaussians import GaussianScene
from ..sparse_voxels import Voxels
from .clusters import Cluster
from .parts import divided

NAME = re.compile(r"(\d+)((?:/[01])*)(\^*)")
CLOSE = (0.1, 0.2, 0.4, 0.8)  # of its largest edge: distances to what a larger whole includes
SAMPLE = 2000  # Gaussians of each cluster with which distances are measured


def rows_of(scene: GaussianScene, clusters: Sequence[Cluster], name: str) -> Tensor:
    """The Gaussians of a cluster ``7``, a part ``7/0`` or a larger whole ``7^``, increasing."""
    found = NAME.fullmatch(name)
    if found is None or (found[2] and found[3]):
        raise InputError(
            f"cluster: expected a number, perhaps followed by a part or by ^ for the larger whole, "
            f"got {name!r}; for example 7, 7/0, 7^ or 7^^"
        )
    index = int(found[1])
    if not 0 <= index < len(clusters):
        there = f"0 to {len(clusters) - 1}" if clusters else "none"
        raise InputError(f"no cluster {index}; there are {there}; newtongs inspect lists them")
    rows = clusters[index].rows
    for depth in range(len(found[2]) // 2):
        division = divided(scene, rows)
        if division is None:
            raise InputError(
                f"cluster {name} does not exist: cluster {name[: len(found[1]) + 2 * depth]} is "
                "of one piece"
            )
        rows = division.parts[int(found[2][2 * depth + 1])]
    if not found[3]:
        return rows
    larger = wholes(scene, clusters, index)
    if len(found[3]) > len(larger):
        raise InputError(
            f"cluster {index} has {len(larger) or 'no'} larger whole{'s' * (len(larger) > 1)}, got "
            f"{name}"
        )
    parts = [clusters[i].rows for i in larger[len(found[3]) - 1]]
    return torch.cat(parts).unique()


def wholes(scene: GaussianScene, clusters: Sequence[Cluster], index: int) -> list[list[int]]:
    """Larger and larger sets of clusters that contain cluster ``index``, by number."""
    own = clusters[index]
    out, before = list[list[int]](), {index}
    chain = [_close(scene, clusters, index, reach * float(own.size.amax())) for reach in CLOSE]
    host = own.host
    while host >= 0:
        chain.append({host, *(c.id for c in clusters if _carried(clusters, c) & {host})})
        host = clusters[host].host
    for one in chain:
        if one | before > before:
            before = one | before
            out.append(sorted(before))
    return out


def _carried(clusters: Sequence[Cluster], one: Cluster) -> set[int]:
    """What carries a cluster, and what carries that."""
    out, host = set[int](), one.host
    while host >= 0 and host not in out:
        out.add(host)
        host = clusters[host].host
    return out


def _close(scene: GaussianScene, clusters: Sequence[Cluster], index: int, reach: float) -> set[int]:
    """Clusters connected with one of them by gaps of at most about ``reach``; no furniture."""
    hosts = {c.host for c in clusters}
    some = [c for c in clusters if c.id not in hosts or c.id == index]
    x = [scene.means[c.rows[:: -(-len(c.rows) // SAMPLE)]] for c in some]
    of = np.repeat([c.id for c in some], [len(each) for each in x])
    voxels = Voxels.of(torch.cat(x), reach)
    part = voxels.components()[voxels.of_point].numpy() + len(clusters)
    n = int(part.max()) + 1
    links = sparse.coo_matrix((np.ones(len(of)), (of, part)), shape=(n, n))
    group = connected_components(links, directed=False)[1]
    return {c.id for c in some if group[c.id] == group[index]}
